import type { StandardSchemaV1 } from '@standard-schema/spec';
import type { CustomBackoff } from '../../core/backoff.ts';
import { isJoin, type JoinMode, joinModeOf } from '../../core/dependencies.ts';
import type { DurationInput } from '../../core/duration.ts';
import type { Issue } from '../../core/errors.ts';
import type { AssignmentWriter } from '../../core/governance/assignments.ts';
import { isUuid } from '../../core/ids.ts';
import { Issues } from '../../core/issues.ts';
import { membersOf, refuseUnknown } from '../../core/known-members.ts';
import { type JobLimit, type LimitSubmission, readLimit } from '../../core/limit.ts';
import { type Policy, type PolicyLayer, resolvePolicy } from '../../core/policy.ts';
import { RegistrationError } from '../../core/registration-error.ts';
import type { BackoffSubmission } from '../../core/submission.ts';
import { readDuration, readTypeName } from '../../core/submission-fields.ts';
import { readPolicyLayer } from '../../core/submission-policy.ts';
import type { JobContext } from './job-context.ts';

/** Runs one attempt of a job. What it returns is the output of the job; what it throws decides about a retry. */
export type Handler<P = unknown, R = unknown, C = JobContext> = (context: C, payload: P) => R | Promise<R>;

/** A handler, and the policy of its jobs. */
export type Registration<P = unknown, R = unknown, C = JobContext> = {
  /** The job type that the handler runs. */
  type: string;
  /** The function that runs a job. */
  handler: Handler<P, R, C>;
  /** How long one attempt may take, unless the submission says otherwise. */
  timeout?: DurationInput;
  /** How many attempts a job has, unless the submission says otherwise. */
  maxAttempts?: number;
  /** How many jobs of the type may run at the same time, over all workers. */
  concurrency?: number;
  /** The limit of jobs of the type whose submission has none. Its key may contain placeholders such as `{payload.customer.id}`. */
  limit?: LimitSubmission;
  /** How long a job waits before each retry, or a function that computes it. */
  backoff?: BackoffSubmission | CustomBackoff;
  /** How long a frozen or unreachable worker may be silent before a rescuer takes its jobs. */
  lease?: DurationInput;
  /** How long after its submission a job may still run. */
  lifetime?: DurationInput;
  /** Validates the payload before the handler receives it. Accepts schemas of any Standard Schema library. */
  schema?: StandardSchemaV1<unknown, P>;
  /**
   * The job completes only when every job it spawned has ended. With `all`, or true, it fails if one of them does not complete. With
   * `settled` their outcomes do not matter.
   */
  fanIn?: boolean | JoinMode;
  /**
   * What a cancel request without `force` does to a running handler. `abort` (default) aborts `context.signal`. `cooperative` leaves the
   * signal alone: the handler stops at its next checkpoint or progress report, or when it reads `context.isCancelled`.
   */
  cancellation?: 'abort' | 'cooperative';
  /** The ids of the orgs whose jobs this handler runs. Jobs of other orgs wait for a worker that serves them. Default: every org. */
  orgs?: readonly string[];
  /** Stores the assignments that the handler writes with `context.assignments`. Only planning jobs may write them. */
  assignments?: AssignmentWriter;
};

/** The result of a registration. */
export type RegistrationResult = {
  /** The job type that was named. */
  type: string;
  /** REPLACED: the type had a handler, which this one replaces. */
  status: 'REGISTERED' | 'REPLACED';
  /** Whether the type had a handler before. */
  previous: boolean;
};

/** An accepted registration, with its durations parsed. */
export type RegisteredHandler = {
  readonly type: string;
  readonly handler: Handler;
  readonly layer: PolicyLayer & { readonly hasCustomBackoff: boolean; readonly limit?: JobLimit };
  readonly concurrency: number | null;
  readonly customBackoff: CustomBackoff | undefined;
  readonly schema: StandardSchemaV1 | undefined;
  readonly fanIn: JoinMode | null;
  readonly cancelsCooperatively: boolean;
  /** Null: every org. */
  readonly orgs: readonly string[] | null;
  readonly assignments: AssignmentWriter | undefined;
};

const MEMBERS = membersOf<Registration>({
  type: true,
  handler: true,
  timeout: true,
  maxAttempts: true,
  concurrency: true,
  limit: true,
  backoff: true,
  lease: true,
  lifetime: true,
  schema: true,
  fanIn: true,
  cancellation: true,
  orgs: true,
  assignments: true,
});

/** Every claim compares jobs with the list. */
const MAX_ORGS = 1_000;

/** Returns a handler that calls the given one, for example inside a span. */
export type WrapHandler = (handler: Handler) => Handler;

/** The handlers of one crew. A registration replaces an earlier one of the same type. An invalid one is thrown back and changes nothing. */
export class HandlerRegistry {
  readonly #handlers = new Map<string, RegisteredHandler>();
  readonly #profile: Policy;
  readonly #wrap: WrapHandler | undefined;

  constructor(profile: Policy, wrap?: WrapHandler) {
    this.#profile = profile;
    this.#wrap = wrap;
  }

  register(registration: Registration): RegistrationResult {
    const { entry, issues } = readRegistration(registration, this.#profile);
    const type = typeof registration?.type === 'string' ? registration.type : '';
    const previous = this.#handlers.has(type);
    if (entry === null) throw new RegistrationError({ type, previous, issues });
    this.#handlers.set(type, this.#wrap === undefined ? entry : { ...entry, handler: this.#wrap(entry.handler) });
    return { type, status: previous ? 'REPLACED' : 'REGISTERED', previous };
  }

  get(type: string): RegisteredHandler | undefined {
    return this.#handlers.get(type);
  }

  all(): RegisteredHandler[] {
    return [...this.#handlers.values()];
  }

  types(): string[] {
    return [...this.#handlers.keys()];
  }

  /** The orgs of the types that are served for some orgs only. */
  orgsOfTypes(): Map<string, readonly string[]> {
    return new Map(this.all().flatMap(({ type, orgs }) => (orgs === null ? [] : [[type, orgs] as const])));
  }
}

function readRegistration(given: Registration, profile: Policy): { entry: RegisteredHandler | null; issues: readonly Issue[] } {
  const issues = new Issues();
  if (typeof given !== 'object' || given === null) {
    issues.add('registration', 'INVALID_TYPE', 'must be an object');
    return { entry: null, issues: issues.list };
  }
  refuseUnknown(given, MEMBERS, issues);
  readTypeName(given.type, issues); // The rule of submissions: a type that can be submitted can be run.
  if (typeof given.handler !== 'function') issues.add('handler', 'REQUIRED', 'must be a function');
  if (given.concurrency !== undefined && !(Number.isInteger(given.concurrency) && given.concurrency >= 1)) {
    issues.add('concurrency', 'OUT_OF_RANGE', 'must be an integer of at least 1');
  }
  if (given.schema !== undefined && typeof given.schema?.['~standard']?.validate !== 'function') {
    issues.add('schema', 'INVALID_VALUE', 'must be a Standard Schema, such as one of Zod, Valibot or ArkType');
  }
  if (given.fanIn !== undefined && !isJoin(given.fanIn)) {
    issues.add('fanIn', 'INVALID_VALUE', "must be true, false, 'all' or 'settled'");
  }
  if (given.cancellation !== undefined && given.cancellation !== 'abort' && given.cancellation !== 'cooperative') {
    issues.add('cancellation', 'INVALID_VALUE', "must be 'abort' or 'cooperative'");
  }
  if (given.assignments !== undefined && typeof given.assignments !== 'function') {
    issues.add('assignments', 'INVALID_TYPE', 'must be a function that stores an assignment');
  }
  const orgs = readOrgs(given.orgs, issues);
  const layer = readLayer(given, issues);
  const resolved = resolvePolicy({ registration: layer, profile });
  if (!resolved.ok) issues.include(...resolved.issues);
  if (issues.list.length > 0) return { entry: null, issues: issues.list };
  return {
    entry: {
      type: given.type,
      handler: given.handler,
      layer,
      concurrency: given.concurrency ?? null,
      customBackoff: typeof given.backoff === 'function' ? given.backoff : undefined,
      schema: given.schema,
      fanIn: joinModeOf(given.fanIn ?? false),
      cancelsCooperatively: given.cancellation === 'cooperative',
      orgs,
      assignments: given.assignments,
    },
    issues: [],
  };
}

function readOrgs(given: readonly string[] | undefined, issues: Issues): readonly string[] | null {
  if (given === undefined) return null;
  if (!Array.isArray(given) || given.length < 1 || given.length > MAX_ORGS) {
    issues.add('orgs', 'OUT_OF_RANGE', `must be a list of 1 to ${MAX_ORGS} ids of orgs. Leave it out to serve every org`);
    return null;
  }
  const wrong = given.findIndex((id) => !isUuid(id));
  if (wrong !== -1) issues.add(`orgs[${wrong}]`, 'INVALID_ID', 'must be the id of an org, which is a UUID');
  return given.map((id) => String(id).toLowerCase());
}

function readLayer(given: Registration, issues: Issues): RegisteredHandler['layer'] {
  const custom = typeof given.backoff === 'function';
  const requested = {
    timeout: given.timeout,
    lifetime: given.lifetime,
    maxAttempts: given.maxAttempts,
    backoff: custom ? undefined : given.backoff,
  };
  const layer = readPolicyLayer(requested, issues) ?? {};
  return {
    ...layer,
    ...(custom ? { backoff: { strategy: 'CUSTOM' as const } } : {}),
    leaseMs: given.lease === undefined ? undefined : (readDuration(given.lease, 'lease', issues) ?? undefined),
    ...(given.limit == null ? {} : { limit: readLimit(given.limit, issues, { isTemplate: true }) ?? undefined }),
    hasCustomBackoff: custom,
  };
}
