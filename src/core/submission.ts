import type { AddressPolicy } from './address-policy.ts';
import type { BackoffStrategy } from './backoff.ts';
import { fingerprint as hash } from './canonical-json.ts';
import type { DependencyType } from './dependencies.ts';
import { type DurationInput, formatDuration } from './duration.ts';
import { type Envelope, readEnvelope } from './envelope.ts';
import type { Issue } from './errors.ts';
import { Issues } from './issues.ts';
import { fillLimit, type JobLimit, type LimitSubmission, readLimit } from './limit.ts';
import { DEFAULT_MAX_PAYLOAD_BYTES, decodePayload, encodePayload, lengthOf, type Payload } from './payload.ts';
import type { Policy, ProfileName } from './policy.ts';
import { DEFAULT_PRIORITY, PRIORITIES, type Priority, priorityNumber } from './priority.ts';
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
import { refuseReservedType, refuseUnknownMembers } from './submission-members.ts';
import { type RegistrationPolicy, readPolicyLayer, resolveForJob } from './submission-policy.ts';
import { formatTimestamp, type TimestampInput } from './timestamp.ts';
import { nextTurn } from './turns.ts';

export interface BackoffSubmission {
  readonly strategy?: BackoffStrategy;
  readonly initialDelay?: DurationInput;
  readonly maxDelay?: DurationInput;
  readonly multiplier?: number;
  readonly jitter?: boolean;
}

/** What a caller submits. A member that is undefined or null counts as absent. */
export interface Submission<P = unknown> {
  /** The job type, which selects the handler. */
  readonly type: string;
  /** The input of the handler: a JSON value. */
  readonly payload: P;
  /** Default: NORMAL. */
  readonly priority?: Priority | null;
  /** How long to wait before the job may start. Not together with `scheduledAt`. */
  readonly delay?: DurationInput | null;
  /** When the job may start. Not together with `delay`. */
  readonly scheduledAt?: TimestampInput | null;
  /** How long one attempt may take. */
  readonly timeout?: DurationInput | null;
  /** The longest time from the submission to the end of the job, delays and retries included. */
  readonly lifetime?: DurationInput | null;
  /** How many attempts the job has before it is dead-lettered. */
  readonly maxAttempts?: number | null;
  /** How long the job waits before each retry. */
  readonly backoff?: BackoffSubmission | null;
  /** A second submission with the same key returns the first job. */
  readonly idempotencyKey?: string | null;
  /** An id that connects jobs and logs. Default: the id of the request. */
  readonly correlationId?: string | null;
  /** Names and values to search by. */
  readonly tags?: Readonly<Record<string, string>> | null;
  /** The ids of jobs that must end first. */
  readonly dependsOn?: readonly string[] | null;
  /** AFTER (default) and CHAIN: start when all of them completed. AFTER_ANY: start when the first has ended, in any state. */
  readonly dependencyType?: DependencyType | null;
  /** An address that receives the outcome of the job. */
  readonly callbackUrl?: string | null;
  /** The queue to wait in. */
  readonly queue?: string | null;
  /** How many jobs with one key run at the same time or start within a time. Default: the limit of the type, else that of the queue. */
  readonly limit?: LimitSubmission | null;
  /** A label that is stored and shown with the job. */
  readonly category?: string | null;
  /** A scope inside the org. The same idempotency key in two projects names two jobs. */
  readonly projectId?: string | null;
  /** W3C Trace Context: the span that submits the job. */
  readonly traceparent?: string | null;
}

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
}

export type NormalizedSubmission =
  | {
      readonly ok: true;
      readonly job: NewJob;
      /** Adds the fingerprint to a job with a large payload, in several turns of the event loop. Absent for any other job. */
      readonly complete?: () => Promise<NewJob>;
    }
  | { readonly ok: false; readonly issues: readonly Issue[] };

/** Checks a submission, fills in defaults and resolves the job's policy. Reports all problems together. */
export function normalizeSubmission(submission: Submission, params: NormalizeParams): NormalizedSubmission {
  const issues = new Issues();
  if (typeof submission !== 'object' || submission === null || Array.isArray(submission)) {
    issues.add('submission', 'INVALID_TYPE', 'must be an object');
    return { ok: false, issues: issues.list };
  }
  refuseUnknownMembers(submission, issues);
  refuseReservedType(submission.type, profileNameOf(params.profile), issues);
  const requested = readRequested(submission, params, issues);
  const { registration, profile } = params;
  const policy = resolveForJob({ submission: requested.layer, registration, profile }, issues);
  if (policy !== null) checkLifetime(requested, { lifetimeMs: policy.lifetimeMs, nowMs: params.nowMs }, issues);
  const limit = issues.list.length > 0 || requested.payload === null ? undefined : limitOf(requested as Complete, params, issues);
  if (issues.list.length > 0 || policy === null || requested.payload === null) return { ok: false, issues: issues.list };
  return withFingerprint(requested as Complete, { policy, limit, fingerprint: params.fingerprint });
}

/** Computing the fingerprint of a larger payload takes several turns of the event loop. */
const LARGE_PAYLOAD = 131_072;

type Resolved = { readonly policy: Policy; readonly limit: JobLimit | undefined; readonly fingerprint: string | undefined };

function withFingerprint(requested: Complete, { policy, limit, fingerprint: given }: Resolved): NormalizedSubmission {
  const { idempotencyKey, payload } = requested;
  const made = (fingerprint: string | null) => newJob(requested, { policy, limit, fingerprint });
  if (idempotencyKey === null) return { ok: true, job: made(null) };
  if (given === undefined && lengthOf(payload) > LARGE_PAYLOAD) {
    const complete = async () => made(await largeFingerprintOf(requested));
    return { ok: true, job: made(null), complete };
  }
  return { ok: true, job: made(given ?? fingerprintOf(requested, comparable(payload))) };
}

/** A job has one limit: its own, else that of its type, else that of its queue. */
function limitOf(requested: Complete, { registration, queueLimitOf }: NormalizeParams, issues: Issues): JobLimit | undefined {
  const { limit, type, queue, payload } = requested;
  if (limit !== null) return limit;
  if (registration?.limit !== undefined) return fillLimit(registration.limit, { payload, source: `type ${type}` }, issues) ?? undefined;
  const ofQueue = queueLimitOf?.(queue);
  return ofQueue === undefined ? undefined : (fillLimit(ofQueue, { payload, source: `queue ${queue}` }, issues) ?? undefined);
}

async function largeFingerprintOf(requested: Complete): Promise<string> {
  await nextTurn();
  const payload = comparable(requested.payload);
  await nextTurn();
  return fingerprintOf(requested, payload);
}

const profileNameOf = (profile: ProfileName | Policy): string => (typeof profile === 'string' ? profile : profile.profile);

type Requested = ReturnType<typeof readRequested>;
type LifetimeParams = { readonly lifetimeMs: number | null; readonly nowMs: number };
type Complete = Requested & { readonly type: string; readonly payload: Payload };

const NO_DEPENDENCIES: readonly string[] = Object.freeze([]);

function readRequested(given: Submission, { limits, requestId, queues }: NormalizeParams, issues: Issues) {
  const callback = { field: 'callbackUrl', addresses: limits.addresses };
  const queue = given.queue == null ? DEFAULT_QUEUE : readQueue(given.queue, queues, issues);
  return {
    type: readType(given.type, issues),
    payload: readPayload(given.payload, limits, issues),
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
    callbackUrl: given.callbackUrl == null ? null : readUrl(given.callbackUrl, callback, issues),
    envelope: readEnvelope(given, requestId ?? null, issues),
    limit: given.limit == null ? null : readLimit(given.limit, issues),
  };
}

function readType(type: unknown, issues: Issues): string | null {
  if (type == null) {
    issues.add('type', 'REQUIRED', 'is required');
    return null;
  }
  return readTypeName(type, issues);
}

function readPayload(payload: unknown, limits: SubmissionLimits, issues: Issues): Payload | null {
  const encoded = encodePayload(payload, { maxBytes: limits.maxPayloadBytes, field: 'payload' });
  if (encoded.ok) return encoded.payload;
  issues.include(encoded.issue);
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

/** Refuses a job whose lifetime would end before its start. */
function checkLifetime({ delayMs, scheduledAt }: Requested, limit: LifetimeParams, issues: Issues): void {
  const { lifetimeMs, nowMs } = limit;
  if (delayMs !== null && scheduledAt !== null) {
    issues.add('delay', 'CONFLICTING_MEMBERS', 'and scheduledAt cannot be combined: use one of them');
  }
  if (lifetimeMs === null) return;
  const message = `is not within the lifetime of the job, ${formatDuration(lifetimeMs)} from submission: the job would end before it starts. Submit it with a longer lifetime`;
  if (delayMs !== null && delayMs >= lifetimeMs) issues.add('delay', 'BEYOND_LIFETIME', message);
  if (scheduledAt !== null && scheduledAt.getTime() - nowMs >= lifetimeMs) {
    issues.add('scheduledAt', 'BEYOND_LIFETIME', message);
  }
}

type Decided = { readonly policy: Policy; readonly limit: JobLimit | undefined; readonly fingerprint: string | null };

function newJob(requested: Complete, { policy, limit, fingerprint }: Decided): NewJob {
  const { scheduledAt, delayMs, idempotencyKey } = requested;
  return {
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
    ...(limit === undefined ? {} : { limit }),
  };
}

/**
 * Identifies a repeat by what was requested. Resolved values and the trace are left out, so that a changed default or a new trace
 * does not turn a repeat into a different request.
 */
function fingerprintOf(requested: Complete, payload: unknown): string {
  const { idempotencyKey: _, payload: __, scheduledAt, envelope, limit, ...rest } = requested;
  return hash({
    ...rest,
    ...(envelope?.category == null ? {} : { category: envelope.category }),
    ...(limit === null ? {} : { limit }),
    scheduledAt: scheduledAt === null ? null : formatTimestamp(scheduledAt),
    payload,
  });
}

const comparable = (payload: Payload): unknown =>
  payload.kind === 'json' ? decodePayload(payload) : { $bytes: Buffer.from(payload.bytes).toString('base64') };
