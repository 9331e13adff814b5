import type { AddressPolicy } from './address-policy.ts';
import type { BackoffStrategy } from './backoff.ts';
import { fingerprint } from './canonical-json.ts';
import { DEFAULT_DEPENDENCY_TYPE, type DependencyType } from './dependencies.ts';
import type { DurationInput } from './duration.ts';
import { type Envelope, readEnvelope } from './envelope.ts';
import type { Issue } from './errors.ts';
import { DEFAULT_MAX_PAYLOAD_BYTES, decodePayload, encodePayload, type Payload } from './payload.ts';
import type { Policy, PolicyLayer, ProfileName } from './policy.ts';
import { DEFAULT_PRIORITY, PRIORITIES, type Priority, priorityNumber } from './priority.ts';
import {
  CRITICAL_QUEUE,
  DEFAULT_QUEUE,
  FIELD_LIMITS,
  Issues,
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
import { type RegistrationPolicy, readPolicyLayer, settlePolicy } from './submission-policy.ts';
import { formatTimestamp, type TimestampInput } from './timestamp.ts';

export interface BackoffSubmission {
  readonly strategy?: BackoffStrategy;
  readonly initialDelay?: DurationInput;
  readonly maxDelay?: DurationInput;
  readonly multiplier?: number;
  readonly jitter?: boolean;
}

/** What a caller gives. A member that is undefined or null counts as absent. */
export interface Submission<P = unknown> {
  readonly type: string;
  readonly payload: P;
  readonly priority?: Priority | null;
  readonly delay?: DurationInput | null;
  readonly scheduledAt?: TimestampInput | null;
  readonly timeout?: DurationInput | null;
  readonly maxAttempts?: number | null;
  readonly backoff?: BackoffSubmission | null;
  readonly idempotencyKey?: string | null;
  readonly correlationId?: string | null;
  readonly tags?: Readonly<Record<string, string>> | null;
  readonly dependsOn?: readonly string[] | null;
  readonly dependencyType?: DependencyType | null;
  readonly callbackUrl?: string | null;
  readonly queue?: string | null;
  /** Kept with the job. */
  readonly category?: string | null;
  /** A part of the org; keys of different projects have nothing to do with each other. */
  readonly projectId?: string | null;
  /** W3C Trace Context: the span that asks for the job. */
  readonly traceparent?: string | null;
}

export interface NewJob {
  readonly type: string;
  readonly queue: string;
  readonly priority: number;
  readonly payload: Payload;
  /** Counted from the moment the database accepts the job. */
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
  /** Null for a job that has none of its members. */
  readonly envelope: Envelope | null;
}

export interface SubmissionLimits {
  readonly maxPayloadBytes: number;
  /** Which addresses a callback may name beside the global ones; without a policy, any. */
  readonly addresses?: AddressPolicy;
}

export const DEFAULT_LIMITS: SubmissionLimits = Object.freeze({ maxPayloadBytes: DEFAULT_MAX_PAYLOAD_BYTES });

export interface NormalizeParams {
  readonly nowMs: number;
  readonly registration?: RegistrationPolicy;
  readonly limits: SubmissionLimits;
  readonly profile: ProfileName | Policy;
  /** Of the request behind the submission, where that is another thing; it tells repeats instead of the computed one. */
  readonly fingerprint?: string;
  /** Of the request behind the submission, where the job does not have the same id. */
  readonly requestId?: string;
  /** Besides the standing ones, the queues that may be named; without them, any. */
  readonly queues?: QueueNames;
}

export type NormalizedSubmission =
  | { readonly ok: true; readonly job: NewJob }
  | { readonly ok: false; readonly issues: readonly Issue[] };

/** Checks a submission whole, fills in what it leaves out, and settles the policy the job keeps for life. */
export function normalizeSubmission(submission: Submission, params: NormalizeParams): NormalizedSubmission {
  const issues = new Issues();
  if (typeof submission !== 'object' || submission === null || Array.isArray(submission)) {
    issues.add('submission', 'INVALID_TYPE', 'must be an object');
    return { ok: false, issues: issues.list };
  }
  refuseUnknownMembers(submission, issues);
  refuseReservedType(submission.type, profileNameOf(params.profile), issues);
  const requested = readRequested(submission, params, issues);
  const policy = settlePolicy(
    { submission: requested.layer, registration: params.registration, profile: params.profile },
    issues,
  );
  if (policy !== null) checkLifetime(requested, { lifetimeMs: policy.lifetimeMs, nowMs: params.nowMs }, issues);
  if (issues.list.length > 0 || policy === null || requested.payload === null)
    return { ok: false, issues: issues.list };
  return { ok: true, job: newJob(requested as Complete, policy, params.fingerprint) };
}

const profileNameOf = (profile: ProfileName | Policy): string =>
  typeof profile === 'string' ? profile : profile.profile;

interface Requested {
  readonly type: string | null;
  readonly payload: Payload | null;
  readonly queue: string;
  readonly priority: Priority;
  readonly delayMs: number | null;
  readonly scheduledAt: Date | null;
  readonly layer: PolicyLayer | undefined;
  readonly idempotencyKey: string | null;
  readonly correlationId: string | null;
  readonly tags: Record<string, string> | null;
  readonly dependsOn: readonly string[];
  readonly dependencyType: DependencyType;
  readonly callbackUrl: string | null;
  readonly envelope: Envelope | null;
}
type Complete = Requested & { readonly type: string; readonly payload: Payload };

const NO_DEPENDENCIES: readonly string[] = Object.freeze([]);

function readRequested(given: Submission, { limits, requestId, queues }: NormalizeParams, issues: Issues): Requested {
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
    dependencyType:
      (given.dependencyType == null ? null : readDependencyType(given.dependencyType, issues)) ??
      DEFAULT_DEPENDENCY_TYPE,
    callbackUrl: given.callbackUrl == null ? null : readCallbackUrl(given.callbackUrl, limits, issues),
    envelope: readEnvelope(given, requestId ?? null, issues),
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
  issues.list.push(encoded.issue);
  return null;
}

// Work in the critical queue is critical unless it says otherwise; a critical priority alone moves no job there.
function readPriority(priority: unknown, queue: string, issues: Issues): Priority {
  const fallback = queue === CRITICAL_QUEUE ? 'CRITICAL' : DEFAULT_PRIORITY;
  if (priority == null) return fallback;
  return readWord(priority, { field: 'priority', words: PRIORITIES }, issues) ?? fallback;
}

function readLabel(value: unknown, field: 'idempotencyKey' | 'correlationId', issues: Issues): string | null {
  return value == null ? null : readText(value, { field, max: FIELD_LIMITS[field] }, issues);
}

function readCallbackUrl(url: unknown, { addresses }: SubmissionLimits, issues: Issues): string | null {
  return readUrl(url, { field: 'callbackUrl', addresses }, issues);
}

interface LifetimeParams {
  readonly lifetimeMs: number | null;
  readonly nowMs: number;
}

/** A job that must die before it may start is refused instead of accepted. */
function checkLifetime(requested: Requested, { lifetimeMs, nowMs }: LifetimeParams, issues: Issues): void {
  const { delayMs, scheduledAt } = requested;
  if (delayMs !== null && scheduledAt !== null) {
    issues.add('delay', 'CONFLICTING_MEMBERS', 'and scheduledAt exclude each other: give one of them');
  }
  if (lifetimeMs === null) return;
  const message = 'lies beyond the lifetime of the job: it would end before it may start';
  if (delayMs !== null && delayMs >= lifetimeMs) issues.add('delay', 'BEYOND_LIFETIME', message);
  if (scheduledAt !== null && scheduledAt.getTime() - nowMs >= lifetimeMs) {
    issues.add('scheduledAt', 'BEYOND_LIFETIME', message);
  }
}

function newJob(requested: Complete, policy: Policy, given: string | undefined): NewJob {
  const { scheduledAt, delayMs, idempotencyKey } = requested;
  return {
    type: requested.type,
    queue: requested.queue,
    priority: priorityNumber(requested.priority),
    payload: requested.payload,
    runAfterMs: delayMs === 0 ? null : delayMs,
    // Whether it has passed the database's clock decides; a time that has means now.
    runAt: scheduledAt,
    policy,
    idempotencyKey,
    fingerprint: idempotencyKey === null ? null : (given ?? fingerprintOf(requested)),
    correlationId: requested.correlationId,
    tags: requested.tags,
    dependsOn: requested.dependsOn,
    dependencyType: requested.dependencyType,
    callbackUrl: requested.callbackUrl,
    envelope: requested.envelope,
  };
}

/**
 * Of what was asked for, not of what it resolved to: a changed default does not make a repeat a different request, nor does the
 * trace that the repeat belongs to.
 */
function fingerprintOf(requested: Complete): string {
  const { idempotencyKey: _, payload, scheduledAt, envelope, ...rest } = requested;
  return fingerprint({
    ...rest,
    ...(envelope?.category == null ? {} : { category: envelope.category }),
    scheduledAt: scheduledAt === null ? null : formatTimestamp(scheduledAt),
    payload:
      payload.kind === 'json' ? decodePayload(payload) : { $bytes: Buffer.from(payload.bytes).toString('base64') },
  });
}
