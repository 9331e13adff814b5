import { BACKOFF_STRATEGIES, type BackoffPolicy, DEFAULT_BACKOFF } from './backoff.ts';
import type { Issue } from './errors.ts';

/** What a job keeps for life, resolved once at submission. */
export interface Policy {
  readonly profile: string;
  readonly maxAttempts: number;
  readonly timeoutMs: number;
  readonly leaseMs: number;
  readonly lifetimeMs: number | null;
  readonly backoff: BackoffPolicy;
  readonly autoRetry: boolean;
  readonly retryOnTimeout: boolean;
  readonly retryOnSystem: boolean;
  readonly onOrphan: 'retry' | 'fail';
  readonly cancelGraceMs: number;
  readonly keyWindowMs: number;
  readonly retentionMs: number;
  /** A cancel ends a running job and leaves a retrying one failed, at once; otherwise its handler is asked to stop. */
  readonly cancelsAtOnce: boolean;
  /** Whether a retry by hand grants an attempt beyond the limit. */
  readonly retriesByHand: 'extend' | 'within_limit';
}

/** Some of a policy's values; absent members leave the choice to the next layer. */
export type PolicyLayer = Partial<Omit<Policy, 'profile' | 'backoff'>> & { readonly backoff?: Partial<BackoffPolicy> };

export type ProfileName = keyof typeof PROFILES;

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

export const MAX_ATTEMPTS = 100;
/** How long a caller waits for a submission to be acknowledged; a server setting, not part of a job's policy. */
export const SUBMISSION_TIMEOUT_MS = 30 * SECOND;

export const PROFILES = {
  gopherqueue: Object.freeze({
    profile: 'gopherqueue',
    maxAttempts: 3,
    timeoutMs: 30 * MINUTE,
    leaseMs: 5 * MINUTE,
    lifetimeMs: 7 * DAY,
    backoff: DEFAULT_BACKOFF,
    autoRetry: true,
    retryOnTimeout: true,
    retryOnSystem: true,
    onOrphan: 'retry',
    cancelGraceMs: 30 * SECOND,
    keyWindowMs: DAY,
    retentionMs: 30 * DAY,
    cancelsAtOnce: false,
    retriesByHand: 'extend',
  }),
  forgerun: Object.freeze({
    profile: 'forgerun',
    maxAttempts: 4,
    timeoutMs: 2 * MINUTE,
    leaseMs: 30 * SECOND,
    lifetimeMs: null,
    backoff: Object.freeze({ ...DEFAULT_BACKOFF, initialDelayMs: SECOND, maxDelayMs: MINUTE }),
    autoRetry: false,
    retryOnTimeout: true,
    retryOnSystem: true,
    onOrphan: 'fail',
    cancelGraceMs: 0,
    // A key lives as long as its job, with which it is removed.
    keyWindowMs: 36_500 * DAY,
    retentionMs: 30 * DAY,
    cancelsAtOnce: true,
    retriesByHand: 'within_limit',
  }),
} as const satisfies Record<string, Policy>;

export type ResolvedPolicy =
  | { readonly ok: true; readonly policy: Policy }
  | { readonly ok: false; readonly issues: readonly Issue[] };

export interface ResolveParams {
  readonly submission?: PolicyLayer;
  readonly registration?: PolicyLayer;
  readonly category?: PolicyLayer;
  /** A shipped profile by name, or one that the configuration altered. Its timeout is also the longest allowed. */
  readonly profile: ProfileName | Policy;
}

/**
 * The first layer that states a value wins: submission, registration, category, profile. What a registration makes of a profile is
 * worked out once, so that all jobs of a type that ask for nothing else have one policy object.
 */
export function resolvePolicy({ submission, registration, category, profile }: ResolveParams): ResolvedPolicy {
  const base: Policy = typeof profile === 'string' ? PROFILES[profile] : profile;
  if (submission === undefined && category === undefined) {
    return registration === undefined ? { ok: true, policy: base } : registeredPolicy(registration, base);
  }
  let policy = base;
  for (const layer of [category, registration, submission]) if (layer !== undefined) policy = overlay(policy, layer);
  return judged(policy, base);
}

const registered = new WeakMap<PolicyLayer, { readonly base: Policy; readonly resolved: ResolvedPolicy }>();

function registeredPolicy(layer: PolicyLayer, base: Policy): ResolvedPolicy {
  const known = registered.get(layer);
  if (known?.base === base) return known.resolved;
  const resolved = judged(overlay(base, layer), base);
  registered.set(layer, { base, resolved });
  return resolved;
}

function judged(policy: Policy, base: Policy): ResolvedPolicy {
  const issues = policy === base ? [] : checkPolicy(policy, base);
  return issues.length === 0 ? { ok: true, policy } : { ok: false, issues };
}

/** The policy itself where the layer says nothing else. */
function overlay(under: Policy, layer: PolicyLayer): Policy {
  const changes = Object.entries(layer).filter(
    ([member, value]) => value !== undefined && member !== 'backoff' && Object.hasOwn(under, member),
  );
  const delays = Object.entries(layer.backoff ?? {}).filter(([, value]) => value !== undefined);
  if (changes.length === 0 && delays.length === 0) return under;
  const backoff = delays.length === 0 ? under.backoff : { ...under.backoff, ...Object.fromEntries(delays) };
  return { ...under, ...Object.fromEntries(changes), backoff };
}

/** Everything wrong with a policy, measured against the profile it was made from. */
export function checkPolicy(policy: Policy, profile: Policy): Issue[] {
  const issues: Issue[] = [];
  const demand = (holds: boolean, field: string, message: string): void => {
    if (!holds) issues.push({ field, code: 'OUT_OF_RANGE', message: `${field} ${message}` });
  };
  demand(isCount(policy.maxAttempts, 1, MAX_ATTEMPTS), 'maxAttempts', `must be an integer from 1 to ${MAX_ATTEMPTS}`);
  demand(
    isCount(policy.timeoutMs, 1, profile.timeoutMs),
    'timeout',
    `must be longer than zero and at most ${profile.timeoutMs / SECOND} seconds, the limit of the ${profile.profile} profile`,
  );
  demand(isCount(policy.leaseMs, SECOND, DAY), 'lease', 'must lie between one second and one day');
  demand(policy.lifetimeMs === null || isCount(policy.lifetimeMs, 1), 'lifetime', 'must be longer than zero, or null');
  demand(isCount(policy.cancelGraceMs, 0), 'cancelGrace', 'must be zero or longer');
  demand(isCount(policy.keyWindowMs, 1), 'keyWindow', 'must be longer than zero');
  demand(isCount(policy.retentionMs, 0), 'retention', 'must be zero or longer');
  demandBackoff(policy.backoff, demand);
  return issues;
}

function demandBackoff(backoff: BackoffPolicy, demand: (holds: boolean, field: string, message: string) => void): void {
  const { strategy, initialDelayMs, maxDelayMs, multiplier } = backoff;
  demand(BACKOFF_STRATEGIES.includes(strategy), 'backoff.strategy', `must be one of ${BACKOFF_STRATEGIES.join(', ')}`);
  demand(isCount(initialDelayMs, 0), 'backoff.initialDelay', 'must be zero or longer');
  demand(isCount(maxDelayMs, 0), 'backoff.maxDelay', 'must be zero or longer');
  demand(!(maxDelayMs < initialDelayMs), 'backoff.maxDelay', 'must not be shorter than the initial delay');
  demand(multiplier >= 1 && multiplier <= 1_000, 'backoff.multiplier', 'must lie between 1 and 1000');
}

function isCount(value: number, lowest: number, highest = Number.MAX_SAFE_INTEGER): boolean {
  return Number.isInteger(value) && value >= lowest && value <= highest;
}
