import type { AddressPolicy } from './address-policy.ts';
import { fingerprint as hash } from './canonical-json.ts';
import type { DependencyType } from './dependencies.ts';
import { type Envelope, readEnvelope } from './envelope.ts';
import type { Issue } from './errors.ts';
import type { Category } from './governance/category.ts';
import {
  categoryNamed,
  checkGoverned,
  derivedKey,
  type Governing,
  type InspectedPayload,
  inspectPayload,
  jittered,
  looksDerived,
  stretchedFor,
} from './governance/govern.ts';
import { Issues } from './issues.ts';
import { fillLimit, type JobLimit, readLimit } from './limit.ts';
import { DEFAULT_MAX_PAYLOAD_BYTES, encodePayload, lengthOf, type Payload } from './payload.ts';
import type { Policy, ProfileName } from './policy.ts';
import { DEFAULT_PRIORITY, PRIORITIES, type Priority, priorityNumber } from './priority.ts';
import { checkStart } from './start-time.ts';
import {
  CRITICAL_QUEUE,
  DEFAULT_QUEUE,
  FIELD_LIMITS,
  type QueueNames,
  readDependencies,
  readDependencyType,
  readDuration,
  readQueue,
  readTags,
  readText,
  readTimestamp,
  readTypeName,
  readUrl,
  readWord,
} from './submission-fields.ts';
import { fingerprintOf, LARGE_PAYLOAD, largeFingerprintOf } from './submission-fingerprint.ts';
import type { BackoffSubmission, Submission } from './submission-input.ts';
import { refuseReservedType, refuseUnknownMembers } from './submission-members.ts';
import { type RegistrationPolicy, readPolicyLayer, resolveForJob } from './submission-policy.ts';
import { type JobUnique, readUnique, withinLifetime } from './unique.ts';

export type { BackoffSubmission, Submission };

export interface NewJob {
  readonly type: string;
  readonly queue: string;
  readonly priority: number;
  readonly payload: Payload;
  /** Counts from the time the database accepts the job. */
  readonly runAfterMs: number | null;
  readonly runAt: Date | null;
  readonly policy: Policy;
  readonly idempotencyKey: string | null;
  readonly fingerprint: string | null;
  readonly correlationId: string | null;
  readonly tags: Readonly<Record<string, string>> | null;
  readonly dependsOn: readonly string[];
  readonly dependencyType: DependencyType;
  readonly callbackUrl: string | null;
  readonly envelope: Envelope | null;
  /** Absent for almost all jobs. */
  readonly limit?: JobLimit;
  /** Absent for almost all jobs. */
  readonly unique?: JobUnique;
  /** The idempotency key was derived from the submission. */
  readonly hasDerivedKey?: true;
}

export interface SubmissionLimits {
  readonly maxPayloadBytes: number;
  /** The non-public addresses that a callback may use. Without a policy every address is allowed. */
  readonly addresses?: AddressPolicy;
}

export const DEFAULT_LIMITS: SubmissionLimits = Object.freeze({ maxPayloadBytes: DEFAULT_MAX_PAYLOAD_BYTES });

export interface NormalizeParams {
  readonly nowMs: number;
  readonly registration?: RegistrationPolicy;
  readonly limits: SubmissionLimits;
  readonly profile: ProfileName | Policy;
  /** Identifies repeats instead of the computed fingerprint, for doors whose requests differ from submissions. */
  readonly fingerprint?: string;
  /** Set when the request id differs from the job id. */
  readonly requestId?: string;
  /** The limit of a queue, for jobs whose submission and type have none. */
  readonly queueLimitOf?: (queue: string) => JobLimit | undefined;
  /** Queues that may be used in addition to the built-in ones. Without them every name is accepted. */
  readonly queues?: QueueNames;
  /** The rules of categories. Without them a category is only stored. */
  readonly governing?: Governing;
}

export type NormalizedSubmission =
  | {
      readonly ok: true;
      readonly job: NewJob;
      /** Does the rest for a job with a large payload, in several turns of the event loop. Absent for any other job. */
      readonly complete?: () => Promise<CompletedSubmission>;
    }
  | { readonly ok: false; readonly issues: readonly Issue[] };

type CompletedSubmission = { readonly ok: true; readonly job: NewJob } | { readonly ok: false; readonly issues: readonly Issue[] };

/** Checks a submission, fills in defaults and resolves the job's policy. Reports all problems together. */
export function normalizeSubmission(submission: Submission, params: NormalizeParams): NormalizedSubmission {
  const issues = new Issues();
  if (typeof submission !== 'object' || submission === null || Array.isArray(submission)) {
    issues.add('submission', 'INVALID_TYPE', 'must be an object');
    return { ok: false, issues: issues.list };
  }
  refuseUnknownMembers(submission, issues);
  refuseReservedType(submission.type, profileNameOf(params.profile), issues);
  const { registration, governing, nowMs, fingerprint } = params;
  const category = categoryNamed(submission.category, governing);
  const requested = readRequested(submission, { params, category }, issues);
  const profile = category === null ? params.profile : stretchedFor(registration, (governing as Governing).governance.profileOf(category));
  const policy = resolveForJob({ submission: requested.layer, registration, profile }, issues);
  if (policy !== null) checkStart(requested, { lifetimeMs: policy.lifetimeMs, nowMs }, issues);
  if (category !== null) checkGoverned(requested, { category, nowMs, knowsType: (governing as Governing).knowsType }, issues);
  const limit = issues.list.length > 0 || requested.payload === null ? undefined : limitOf(requested as Complete, params, issues);
  if (issues.list.length > 0 || policy === null || requested.payload === null) return { ok: false, issues: issues.list };
  if (category === null) return withFingerprint(requested as Complete, { policy, limit, fingerprint });
  const ruled = { category, governing: governing as Governing, nowMs, policy: jittered(policy), limit, fingerprint };
  return withGovernedPayload(requested as Complete, ruled);
}

type Resolved = { readonly policy: Policy; readonly limit: JobLimit | undefined; readonly fingerprint: string | undefined };

function withFingerprint(requested: Complete, { policy, limit, fingerprint: given }: Resolved): NormalizedSubmission {
  const { idempotencyKey, payload } = requested;
  if (idempotencyKey === null) return { ok: true, job: newJob(requested, { policy, limit, fingerprint: null }) };
  const made = (fingerprint: string | null) => newJob(requested, { policy, limit, fingerprint });
  if (given === undefined && lengthOf(payload) > LARGE_PAYLOAD) {
    const complete = async () => ({ ok: true, job: made(await largeFingerprintOf(requested)) }) as const;
    return { ok: true, job: made(null), complete };
  }
  return { ok: true, job: made(given ?? fingerprintOf(requested)) };
}

type Ruled = Resolved & { readonly category: Category; readonly governing: Governing; readonly nowMs: number };

/** Inspects the payload of a governed job and derives its key if it has none. */
function withGovernedPayload(requested: Complete, ruled: Ruled): NormalizedSubmission {
  const inspecting = inspectPayload(requested.payload, ruled.category);
  if (!(inspecting instanceof Promise)) return governed(requested, ruled, inspecting);
  const complete = async (): Promise<CompletedSubmission> => {
    const normalized = governed(requested, ruled, await inspecting);
    return normalized.ok && normalized.complete !== undefined ? normalized.complete() : normalized;
  };
  return { ok: true, job: newJob(requested, { ...ruled, fingerprint: null }), complete };
}

function governed(requested: Complete, ruled: Ruled, { issues, parts }: InspectedPayload): NormalizedSubmission {
  if (issues.length > 0) return { ok: false, issues };
  const { type, idempotencyKey, envelope } = requested;
  if (idempotencyKey !== null && !looksDerived(idempotencyKey, type, ruled.governing)) return withFingerprint(requested, ruled);
  const inputs = { ...requested, projectId: envelope?.projectId ?? null, nowMs: ruled.nowMs };
  const key = derivedKey(inputs, { ...ruled, parts });
  if (idempotencyKey !== null && idempotencyKey !== key) return withFingerprint(requested, ruled);
  const job = newJob({ ...requested, idempotencyKey: key }, { ...ruled, fingerprint: ruled.fingerprint ?? hash(key) });
  return { ok: true, job: { ...job, hasDerivedKey: true } };
}

/** A job has one limit: its own, else that of its type, else that of its queue. */
function limitOf(requested: Complete, { registration, queueLimitOf }: NormalizeParams, issues: Issues): JobLimit | undefined {
  const { limit, type, queue, payload } = requested;
  if (limit !== null) return limit;
  if (registration?.limit !== undefined) return fillLimit(registration.limit, { payload, source: `type ${type}` }, issues) ?? undefined;
  const ofQueue = queueLimitOf?.(queue);
  return ofQueue === undefined ? undefined : (fillLimit(ofQueue, { payload, source: `queue ${queue}` }, issues) ?? undefined);
}

const profileNameOf = (profile: ProfileName | Policy): string => (typeof profile === 'string' ? profile : profile.profile);

type Requested = ReturnType<typeof readRequested>;
type Complete = Requested & { readonly type: string; readonly payload: Payload };

const NO_DEPENDENCIES: readonly string[] = Object.freeze([]);

type ReadParams = { readonly params: NormalizeParams; readonly category: Category | null };

function readRequested(given: Submission, { params, category }: ReadParams, issues: Issues) {
  const { limits, requestId, queues } = params;
  const queue = given.queue == null ? (category?.queue ?? DEFAULT_QUEUE) : readQueue(given.queue, queues, issues);
  return {
    type: readType(given.type, issues),
    payload: readPayload(given.payload, { limits, category }, issues),
    queue,
    priority: readPriority(given.priority, queue, issues),
    delayMs: given.delay == null ? null : readDuration(given.delay, 'delay', issues),
    scheduledAt: given.scheduledAt == null ? null : readTimestamp(given.scheduledAt, 'scheduledAt', issues),
    layer: readPolicyLayer(given, issues),
    idempotencyKey: readLabel(given.idempotencyKey, 'idempotencyKey', issues),
    correlationId: readLabel(given.correlationId, 'correlationId', issues),
    tags: given.tags == null ? null : readTags(given.tags, issues),
    dependsOn: given.dependsOn == null ? NO_DEPENDENCIES : readDependencies(given.dependsOn, issues),
    dependencyType: readDependencyType(given.dependencyType, issues),
    callbackUrl:
      given.callbackUrl == null ? null : readUrl(given.callbackUrl, { field: 'callbackUrl', addresses: limits.addresses }, issues),
    envelope: readEnvelope(given, requestId ?? null, issues),
    limit: given.limit == null ? null : readLimit(given.limit, issues),
    unique: readUnique(given, issues),
  };
}

function readType(type: unknown, issues: Issues): string | null {
  if (type == null) {
    issues.add('type', 'REQUIRED', 'is required');
    return null;
  }
  return readTypeName(type, issues);
}

type PayloadRules = { readonly limits: SubmissionLimits; readonly category: Category | null };

function readPayload(payload: unknown, { limits, category }: PayloadRules, issues: Issues): Payload | null {
  const encoded = encodePayload(payload, { maxBytes: limits.maxPayloadBytes, field: 'payload' });
  if (!encoded.ok) issues.include(encoded.issue);
  else if (category === null || encoded.payload.kind === 'json') return encoded.payload;
  else issues.add('payload', 'INVALID_TYPE', `must be an object for the category ${category.name}, not bytes`);
  return null;
}

// A job in the critical queue has the priority CRITICAL by default. The priority alone does not change the queue.
function readPriority(priority: unknown, queue: string, issues: Issues): Priority {
  const fallback = queue === CRITICAL_QUEUE ? 'CRITICAL' : DEFAULT_PRIORITY;
  if (priority == null) return fallback;
  return readWord(priority, { field: 'priority', words: PRIORITIES }, issues) ?? fallback;
}

function readLabel(value: unknown, field: 'idempotencyKey' | 'correlationId', issues: Issues): string | null {
  return value == null ? null : readText(value, { field, max: FIELD_LIMITS[field] }, issues);
}

type Writable<T> = { -readonly [K in keyof T]: T[K] };
type Decided = { readonly policy: Policy; readonly limit: JobLimit | undefined; readonly fingerprint: string | null };

function newJob(requested: Complete, { policy, limit, fingerprint }: Decided): NewJob {
  const { scheduledAt, idempotencyKey, unique } = requested;
  const delayMs = unique?.onConflict === 'debounce' ? unique.delayMs : requested.delayMs;
  const job: Writable<NewJob> = {
    type: requested.type,
    queue: requested.queue,
    priority: priorityNumber(requested.priority),
    payload: requested.payload,
    runAfterMs: delayMs === 0 ? null : delayMs,
    // A time in the past means now. The clock of the database decides.
    runAt: scheduledAt,
    policy,
    idempotencyKey,
    fingerprint,
    correlationId: requested.correlationId,
    tags: requested.tags,
    dependsOn: requested.dependsOn,
    dependencyType: requested.dependencyType,
    callbackUrl: requested.callbackUrl,
    envelope: requested.envelope,
  };
  // Members that almost no job has. A spread of them, mostly of nothing, took longer than the rest of this object.
  if (limit !== undefined) job.limit = limit;
  if (unique !== null) job.unique = withinLifetime(unique, policy.lifetimeMs);
  return job;
}
