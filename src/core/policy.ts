import { BACKOFF_STRATEGIES, type BackoffPolicy, DEFAULT_BACKOFF } from './backoff.ts';
import type { Issue } from './errors.ts';
import { CATEGORY_NAMES } from './governance/categories.ts';

/** The rules of a job, resolved once at submission and kept for life. */
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
  /** Whether a cancel ends a running job immediately. Otherwise it asks the handler to stop. */
  readonly cancelsAtOnce: boolean;
  /** Whether a manual retry may exceed the limit of attempts. */
  readonly retriesByHand: 'extend' | 'within_limit';
  /** Only governed jobs have it: the permanent failure that makes the job poison, counted over manual retries. */
  readonly poisonAfter?: number;
}

/** Some values of a policy; the next layer decides about absent members. */
export type PolicyLayer = Partial<Omit<Policy, 'profile' | 'backoff'>> & { readonly backoff?: Partial<BackoffPolicy> };

export type ProfileName = keyof typeof PROFILES;

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

export const MAX_ATTEMPTS = 100;
/** How long a caller waits for the acknowledgement of a submission. */
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
    // The key lives as long as its job and is removed with it.
    keyWindowMs: 36_500 * DAY,
    retentionMs: 30 * DAY,
    cancelsAtOnce: true,
    retriesByHand: 'within_limit',
  }),
} as const satisfies Record<string, Policy>;

export type ResolvedPolicy = { readonly ok: true; readonly policy: Policy } | { readonly ok: false; readonly issues: readonly Issue[] };

export interface ResolveParams {
  readonly submission?: PolicyLayer;
  readonly registration?: PolicyLayer;
  /** A built-in profile by name, or a configured one. Its timeout is also the longest allowed. */
  readonly profile: ProfileName | Policy;
}

/**
 * The first layer with a value wins: submission, registration, profile. The policy of a registration is cached, so that all jobs
 * of a type share one policy object unless they ask for something else.
 */
export function resolvePolicy({ submission, registration, profile }: ResolveParams): ResolvedPolicy {
  const base: Policy = typeof profile === 'string' ? PROFILES[profile] : profile;
  if (submission === undefined) {
    return registration === undefined ? { ok: true, policy: base } : registeredPolicy(registration, base);
  }
  const registered = registration === undefined ? base : overlay(base, registration);
  return checked(overlay(registered, submission), base);
}

const cache = new WeakMap<PolicyLayer, WeakMap<Policy, ResolvedPolicy>>();

function registeredPolicy(layer: PolicyLayer, base: Policy): ResolvedPolicy {
  const ofLayer = cache.get(layer) ?? new WeakMap<Policy, ResolvedPolicy>();
  const known = ofLayer.get(base);
  if (known !== undefined) return known;
  const resolved = checked(overlay(base, layer), base);
  cache.set(layer, ofLayer.set(base, resolved));
  return resolved;
}

function checked(policy: Policy, base: Policy): ResolvedPolicy {
  const issues = policy === base ? [] : checkPolicy(policy, base);
  return issues.length === 0 ? { ok: true, policy } : { ok: false, issues };
}

/** Returns the same object when the layer changes nothing. */
function overlay(under: Policy, layer: PolicyLayer): Policy {
  const changes = Object.entries(layer).filter(
    ([member, value]) => value !== undefined && member !== 'backoff' && Object.hasOwn(under, member),
  );
  const delays = Object.entries(layer.backoff ?? {}).filter(([, value]) => value !== undefined);
  if (changes.length === 0 && delays.length === 0) return under;
  const backoff = delays.length === 0 ? under.backoff : { ...under.backoff, ...Object.fromEntries(delays) };
  return { ...under, ...Object.fromEntries(changes), backoff };
}

/** All problems of a policy, checked against the profile it is based on. */
export function checkPolicy(policy: Policy, profile: Policy): Issue[] {
  const issues: Issue[] = [];
  const require: Require = (isMet, field, message) => {
    if (!isMet) issues.push({ field, code: 'OUT_OF_RANGE', message: `${field} ${message}` });
  };
  require(isCount(policy.maxAttempts, 1, MAX_ATTEMPTS), 'maxAttempts', `must be an integer from 1 to ${MAX_ATTEMPTS}`);
  require(isCount(policy.timeoutMs, 1, profile.timeoutMs), 'timeout', timeoutRule(profile));
  require(isCount(policy.leaseMs, SECOND, DAY), 'lease', 'must be between one second and one day');
  require(policy.lifetimeMs === null || isCount(policy.lifetimeMs, 1), 'lifetime', 'must be greater than zero, or null');
  require(isCount(policy.cancelGraceMs, 0), 'cancelGrace', 'must be zero or greater');
  require(isCount(policy.keyWindowMs, 1), 'keyWindow', 'must be greater than zero');
  require(isCount(policy.retentionMs, 0), 'retention', 'must be zero or greater');
  checkBackoff(policy.backoff, require);
  return issues;
}

/** The settings that decide the longest timeout. */
const TIMEOUT_SETTINGS: ReadonlyMap<string, string> = new Map([
  ...['gopherqueue', ...CATEGORY_NAMES].map((profile): [string, string] => [
    profile,
    'queue.execution_timeout in the configuration, or defaults.timeoutMs of Millrace.open',
  ]),
  ['forgerun', 'execution.max_runtime in the configuration'],
]);

function timeoutRule({ profile, timeoutMs }: Policy): string {
  const setting = TIMEOUT_SETTINGS.get(profile);
  const rule = `must be greater than zero and at most ${timeoutMs / SECOND} seconds`;
  return setting === undefined ? rule : `${rule}. To allow more, set ${setting}`;
}

type Require = (isMet: boolean, field: string, message: string) => void;

function checkBackoff(backoff: BackoffPolicy, require: Require): void {
  const { strategy, initialDelayMs, maxDelayMs, multiplier } = backoff;
  require(BACKOFF_STRATEGIES.includes(strategy), 'backoff.strategy', `must be one of ${BACKOFF_STRATEGIES.join(', ')}`);
  require(isCount(initialDelayMs, 0), 'backoff.initialDelay', 'must be zero or greater');
  require(isCount(maxDelayMs, 0), 'backoff.maxDelay', 'must be zero or greater');
  require(!(maxDelayMs < initialDelayMs), 'backoff.maxDelay', 'must not be less than the initial delay');
  require(multiplier >= 1 && multiplier <= 1_000, 'backoff.multiplier', 'must be between 1 and 1000');
}

function isCount(value: number, lowest: number, highest = Number.MAX_SAFE_INTEGER): boolean {
  return Number.isInteger(value) && value >= lowest && value <= highest;
}
