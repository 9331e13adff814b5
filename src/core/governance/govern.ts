import { fingerprint } from '../canonical-json.ts';
import { lookUp } from '../dictionary.ts';
import type { Issue } from '../errors.ts';
import type { Issues } from '../issues.ts';
import { decodePayload, lengthOf, type Payload } from '../payload.ts';
import type { Policy, PolicyLayer } from '../policy.ts';
import { LARGE_PAYLOAD } from '../submission-fingerprint.ts';
import { nextTurn } from '../turns.ts';
import type { JobUnique } from '../unique.ts';
import { isCategoryName } from './categories.ts';
import type { Category, Governance } from './category.ts';
import { PayloadWalk } from './payload-walk.ts';

/** What the rules of categories need to know about a submission in addition to its members. */
export type Governing = {
  readonly governance: Governance;
  readonly orgId: string;
  /** Whether a worker has ever registered a handler for the type. */
  readonly knowsType: boolean;
  /** Makes jobs with equal payloads distinct: the scheduled run of a job that a schedule submits. */
  readonly run?: string;
};

/** The category of a submission. Null if it has none, or if no rules apply to it. */
export function categoryNamed(name: unknown, governing: Governing | undefined): Category | null {
  if (governing === undefined || !isCategoryName(name)) return null;
  return governing.governance.categories.get(name) ?? null;
}

/** How far the clock of a caller may be behind. */
const CLOCK_TOLERANCE_MS = 60_000;

type Timed = {
  readonly delayMs: number | null;
  readonly scheduledAt: Date | null;
  readonly unique: JobUnique | null;
};

type Rules = { readonly category: Category; readonly nowMs: number; readonly knowsType: boolean };

/** Checks everything but the payload. */
export function checkGoverned(requested: Timed, { category, nowMs, knowsType }: Rules, issues: Issues): void {
  const { name } = category;
  if (!knowsType) {
    issues.add('type', 'UNKNOWN_TYPE', `is not known: no worker has ever registered it, and a job of the category ${name} needs one`);
  }
  const { scheduledAt } = requested;
  const timed = timedMember(requested);
  if (timed !== null && !category.allowsScheduling) {
    const rule = 'only notification and maintenance jobs may start later. Leave it out';
    issues.add(timed, 'SCHEDULING_NOT_ALLOWED', `is not allowed for the category ${name}: ${rule}`);
  } else if (scheduledAt !== null && scheduledAt.getTime() < nowMs - CLOCK_TOLERANCE_MS) {
    issues.add('scheduledAt', 'OUT_OF_RANGE', 'is more than 60 seconds in the past. Send a later time, or none to start at once');
  }
}

function timedMember({ delayMs, scheduledAt, unique }: Timed): string | null {
  if (scheduledAt !== null) return 'scheduledAt';
  if (delayMs !== null && delayMs > 0) return 'delay';
  return unique?.onConflict === 'debounce' ? 'debounce' : null;
}

const stretched = new WeakMap<PolicyLayer, WeakMap<Policy, Policy>>();

/** A handler that only says how long its first delay is may ask for more than the longest delay of the category. Its word counts. */
export function stretchedFor(registration: PolicyLayer | undefined, profile: Policy): Policy {
  const { initialDelayMs = 0, maxDelayMs } = registration?.backoff ?? {};
  if (registration === undefined || maxDelayMs !== undefined || initialDelayMs <= profile.backoff.maxDelayMs) return profile;
  const ofLayer = stretched.get(registration) ?? new WeakMap<Policy, Policy>();
  const made = ofLayer.get(profile) ?? { ...profile, backoff: { ...profile.backoff, maxDelayMs: initialDelayMs } };
  stretched.set(registration, ofLayer.set(profile, made));
  return made;
}

const withJitter = new WeakMap<Policy, Policy>();

/** Governed jobs have jitter even if their submission or their handler turns it off. */
export function jittered(policy: Policy): Policy {
  if (policy.backoff.jitter) return policy;
  const made = withJitter.get(policy) ?? { ...policy, backoff: { ...policy.backoff, jitter: true } };
  withJitter.set(policy, made);
  return made;
}

/** What the payload of a governed job is found to be. */
export type InspectedPayload = { readonly issues: readonly Issue[]; readonly parts: PayloadParts };

/** The parts of a payload that identify a repeat. */
type PayloadParts = { readonly recipient: unknown; readonly template: unknown; readonly hash: string };

/** Looks for secrets and missing members, and hashes the payload. A large payload takes several turns of the event loop. */
export function inspectPayload(payload: Payload, category: Category): InspectedPayload | Promise<InspectedPayload> {
  if (lengthOf(payload) > LARGE_PAYLOAD) return inspectLarge(payload, category);
  const value = decodePayload(payload) as Record<string, unknown>;
  const walk = new PayloadWalk(value);
  walk.step();
  return inspected(value, walk, category);
}

const WORK_PER_TURN = 262_144;

async function inspectLarge(payload: Payload, category: Category): Promise<InspectedPayload> {
  await nextTurn();
  const value = decodePayload(payload) as Record<string, unknown>;
  await nextTurn();
  const walk = new PayloadWalk(value);
  do await nextTurn();
  while (!walk.step(WORK_PER_TURN));
  return inspected(value, walk, category);
}

function inspected(value: Record<string, unknown>, walk: PayloadWalk, { name, requiredMembers }: Category): InspectedPayload {
  const missing = requiredMembers.filter((member) => isAbsent(lookUp(value, member)));
  const issues = missing.map((member): Issue => {
    const field = `payload.${member}`;
    return { field, code: 'REQUIRED', message: `${field} is required for jobs of the category ${name}` };
  });
  const parts = { recipient: lookUp(value, 'recipient'), template: lookUp(value, 'template'), hash: walk.digest() };
  return { issues: [...issues, ...walk.issues], parts };
}

const isAbsent = (value: unknown): boolean => value === undefined || value === null || value === '';

/** The schedule bucket of a notification. */
const BUCKET_MS = 60_000;

export type KeyParts = {
  readonly type: string;
  readonly projectId: string | null;
  readonly delayMs: number | null;
  readonly scheduledAt: Date | null;
  readonly nowMs: number;
};

/** `<job_type>:<org_id>:`, the project if there is one, and a stable hash of the inputs. */
export function derivedKey(
  key: KeyParts,
  { category, governing, parts }: { category: Category; governing: Governing; parts: PayloadParts },
) {
  const project = key.projectId === null ? '' : `${key.projectId}:`;
  return `${prefixOf(key.type, governing)}${project}${stableHash(key, { category, governing, parts })}`;
}

const prefixOf = (type: string, { orgId }: Governing): string => `${type}:${orgId}:`;

/** Whether a caller's key might be one that was derived, which the first answer showed. */
export const looksDerived = (key: string, type: string, governing: Governing): boolean => key.startsWith(prefixOf(type, governing));

function stableHash(key: KeyParts, { category, governing, parts }: { category: Category; governing: Governing; parts: PayloadParts }) {
  const { hash } = parts;
  const run = governing.run === undefined ? {} : { run: governing.run };
  if (category.name !== 'notification') return governing.run === undefined ? hash : fingerprint({ hash, ...run });
  const startMs = key.scheduledAt?.getTime() ?? key.nowMs + (key.delayMs ?? 0);
  return fingerprint({
    org_id: governing.orgId,
    // The hash covers values of other kinds, which may be large.
    recipient: textOrNull(parts.recipient),
    template: textOrNull(parts.template),
    payload_hash: hash,
    schedule_bucket: Math.floor(startMs / BUCKET_MS),
    ...run,
  });
}

const textOrNull = (value: unknown): string | null => (typeof value === 'string' && value.isWellFormed() ? value : null);
