import { AppError } from '../errors.ts';
import { eventIdOf } from '../ids.ts';
import type { StateTransition } from '../job.ts';
import type { JobState } from '../states.ts';
import type { Reason } from '../transitions.ts';
import type { WorkKind } from './kinds.ts';
import { type ExecutionState, executionStateOf, isAllowed } from './states.ts';

export const EVENT_NAMES = [
  'job.created',
  'job.queued',
  'job.assigned',
  'job.running',
  'job.succeeded',
  'job.failed',
  'job.failed_final',
  'job.timed_out',
  'job.canceled',
  'job.retried',
] as const;

type ExecutionEventName = (typeof EVENT_NAMES)[number];

export const EVENT_REASONS = [
  'timeout',
  'failure',
  'worker_lost',
  'worker_stopped',
  'retries_exhausted',
  'canceled',
  'manual',
  'automatic',
] as const;

type ExecutionEventReason = (typeof EVENT_REASONS)[number];

/** One change of state, with the state names of the execution API. */
export type StateChange = {
  readonly eventId: string;
  readonly jobId: string;
  readonly eventName: ExecutionEventName;
  /** Null for the first event of a job. */
  readonly prevState: ExecutionState | null;
  readonly nextState: ExecutionState;
  /** RFC 3339 in UTC with microseconds. Each event of a job is later than the one before. */
  readonly timestamp: string;
  /** The number of the attempt, from 1. */
  readonly attempt: number;
  readonly reason?: ExecutionEventReason;
  readonly retriesExhausted?: true;
};

export type ExecutionEvent = StateChange & { readonly scenario: WorkKind };

type HistoryParams = {
  readonly jobId: string;
  readonly maxAttempts: number;
  readonly history: readonly StateTransition[];
  /** A job of another API. Its transitions are not checked: it may take paths that the execution API does not have. */
  readonly isForeign?: boolean;
};

export type ProjectParams = Omit<HistoryParams, 'isForeign'> & { readonly scenario: WorkKind };

/** The history of a job as events of the execution API. The same history always gives the same events and ids. */
export function projectEvents({ scenario, ...params }: ProjectParams): ExecutionEvent[] {
  return projectSteps(params).flatMap((changes) => changes.map((change) => ({ ...change, scenario })));
}

/** The events of each transition: usually one, sometimes none or two. */
export function projectSteps(params: HistoryParams): StateChange[][] {
  const builder = new EventBuilder(params);
  return params.history.map((transition) => builder.add(transition));
}

type Detail = { readonly reason?: ExecutionEventReason; readonly retriesExhausted?: true };

class EventBuilder {
  readonly #params: HistoryParams;
  #changes: StateChange[] = [];
  #state: ExecutionState | null = null;
  #attempt = 1;
  #attemptsLeftOut: number;
  #lastUs = Number.NEGATIVE_INFINITY;
  #nowUs = 0;

  constructor(params: HistoryParams) {
    this.#params = params;
    // Each attempt that a stopped worker gave back raises the limit of attempts by one from then on.
    this.#attemptsLeftOut = params.history.filter(isRefund).length;
  }

  add(transition: StateTransition): StateChange[] {
    this.#changes = [];
    // The time of a claim is the start of its transaction, which can be earlier than the job became ready.
    this.#nowUs = Math.max(this.#nowUs, transition.at.getTime() * 1_000);
    // The oldest records may have been pruned. Then the events start with the first transition that is left.
    if (this.#state === null && !isFirst(transition)) this.#state = wordOf(transition);
    if (isRefund(transition)) this.#attemptsLeftOut--;
    STEPS[transition.to].call(this, transition);
    return this.#changes;
  }

  created(transition: StateTransition): void {
    if (isFirst(transition)) this.emit('job.created', 'CREATED');
  }

  queued(transition: StateTransition): void {
    this.created(transition);
    if (this.#state === 'FAILED') this.#requeued(transition);
    // A retried job that waits for its backoff is already QUEUED.
    else if (transition.from !== 'delayed' || this.#state === 'CREATED') this.emit('job.queued', 'QUEUED');
  }

  delayed(transition: StateTransition): void {
    this.created(transition);
    if (this.#state === 'FAILED') this.#requeued(transition);
  }

  #requeued({ reason }: StateTransition): void {
    this.#attempt++;
    this.emit('job.retried', 'QUEUED', { reason: reason === 'manual_retry' ? 'manual' : 'automatic' });
  }

  running(transition: StateTransition): void {
    this.#assigned(transition);
    this.emit('job.running', 'RUNNING');
  }

  /** The claim is recorded with the transition after it; its event gets the earlier time of the claim. */
  #assigned({ assignedMs = 0 }: StateTransition): void {
    const followedUs = this.#nowUs;
    this.#nowUs -= Math.round(assignedMs * MICROSECONDS);
    this.emit('job.assigned', 'ASSIGNED');
    this.#nowUs = followedUs;
  }

  succeeded(): void {
    this.emit('job.succeeded', 'SUCCEEDED');
  }

  failed(transition: StateTransition): void {
    // The job is FAILED already, and only its automatic retry was dropped; or it did not fail, and is queued again later.
    if (transition.reason === 'retry_dropped' || transition.reason === 'postponed') return;
    const known = transition.timedOut === true ? 'timeout' : FAILURES[transition.reason];
    const reason = known ?? (this.#params.isForeign ? 'failure' : undefined);
    if (reason === undefined) throw illegal(this.#state, transition);
    const isExhausted = !this.#params.isForeign || transition.reason === 'attempts_exhausted';
    const detail: Detail = { reason, ...(isExhausted ? { retriesExhausted: true } : {}) };
    if (this.#isLast(transition)) this.emit('job.failed_final', 'FAILED', detail);
    else this.emit(reason === 'timeout' ? 'job.timed_out' : 'job.failed', 'FAILED', { reason });
  }

  /** Other APIs have final states for a failed job. In the execution API only the count of attempts decides. */
  #isLast({ to, attempt }: StateTransition): boolean {
    if (this.#params.isForeign) return to !== 'retrying';
    return attempt >= this.#params.maxAttempts - this.#attemptsLeftOut;
  }

  canceled(transition: StateTransition): void {
    if (transition.from === 'scheduled' && transition.wasClaimed === true) this.#assigned(transition);
    this.emit('job.canceled', 'CANCELED', { reason: 'canceled' });
  }

  emit(eventName: ExecutionEventName, nextState: ExecutionState, detail: Detail = {}): void {
    const prevState = this.#state;
    const { jobId, isForeign } = this.#params;
    if (!isForeign && (prevState === null ? nextState !== 'CREATED' : !isAllowed(prevState, nextState))) {
      throw illegal(prevState, { to: nextState });
    }
    this.#lastUs = Math.max(this.#nowUs, this.#lastUs + 1);
    this.#state = nextState;
    this.#changes.push({
      eventId: eventIdOf(jobId, `${this.#lastUs}:${eventName}`),
      jobId,
      eventName,
      prevState,
      nextState,
      timestamp: formatMicroseconds(this.#lastUs),
      attempt: this.#attempt,
      ...detail,
    });
  }
}

// Total, so that every new core state must get an entry here.
const STEPS: Readonly<Record<JobState, (this: EventBuilder, transition: StateTransition) => void>> = {
  pending: EventBuilder.prototype.created,
  delayed: EventBuilder.prototype.delayed,
  scheduled: EventBuilder.prototype.queued,
  running: EventBuilder.prototype.running,
  retrying: EventBuilder.prototype.failed,
  completed: EventBuilder.prototype.succeeded,
  failed: EventBuilder.prototype.failed,
  dead_letter: EventBuilder.prototype.failed,
  cancelled: EventBuilder.prototype.canceled,
};

const FAILURES: Partial<Record<Reason, ExecutionEventReason>> = {
  permanent_failure: 'failure',
  child_failed: 'failure',
  temporary_failure: 'failure',
  system_failure: 'failure',
  timed_out: 'timeout',
  worker_lost: 'worker_lost',
  released: 'worker_stopped',
  attempts_exhausted: 'retries_exhausted',
};

const isFirst = ({ from, reason }: StateTransition): boolean => from === null || reason === 'submitted';

const isRefund = ({ from, reason }: StateTransition): boolean => from === 'running' && (reason === 'released' || reason === 'postponed');

function wordOf({ from, attempt }: StateTransition): ExecutionState {
  return executionStateOf({ state: from as JobState, attemptsStarted: attempt, isLeased: false });
}

function illegal(from: ExecutionState | null, { to, reason }: { to: string; reason?: string }): AppError {
  const because = reason === undefined ? '' : ` because of ${reason}`;
  return new AppError('ILLEGAL_TRANSITION', { message: `an execution cannot go from ${from} to ${to}${because}` });
}

const MICROSECONDS = 1_000;

function formatMicroseconds(us: number): string {
  const date = new Date(Math.floor(us / MICROSECONDS)).toISOString();
  return `${date.slice(0, -1)}${String(us % MICROSECONDS).padStart(3, '0')}Z`;
}
