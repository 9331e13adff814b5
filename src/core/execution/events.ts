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

/** One change of state in the words of the execution API. */
export type StateChange = {
  readonly eventId: string;
  readonly jobId: string;
  readonly eventName: ExecutionEventName;
  /** Null for the birth of the job. */
  readonly prevState: ExecutionState | null;
  readonly nextState: ExecutionState;
  /** RFC 3339 in UTC with microseconds, growing within a job. */
  readonly timestamp: string;
  /** The attempt that was granted by then, from 1. */
  readonly attempt: number;
  readonly reason?: ExecutionEventReason;
  readonly retriesExhausted?: true;
};

/** A change of state of a job of the execution API. */
export type ExecutionEvent = StateChange & { readonly scenario: WorkKind };

type HistoryParams = {
  readonly jobId: string;
  readonly maxAttempts: number;
  readonly history: readonly StateTransition[];
  /** Jobs of other doors go where the execution API's cannot; they are told in the same words all the same. */
  readonly isForeign?: boolean;
};

export type ProjectParams = Omit<HistoryParams, 'isForeign'> & { readonly scenario: WorkKind };

/** The history of a job in the words of the execution API; the same history always gives the same events. */
export function projectEvents({ scenario, ...params }: ProjectParams): ExecutionEvent[] {
  return projectSteps(params).flatMap((changes) => changes.map((change) => ({ ...change, scenario })));
}

/** What each transition of the history tells: mostly one change, at times none or two. */
export function projectSteps(params: HistoryParams): StateChange[][] {
  const projector = new Projector(params);
  return params.history.map((transition) => projector.add(transition));
}

type Told = { readonly reason?: ExecutionEventReason; readonly retriesExhausted?: true };

class Projector {
  readonly #params: HistoryParams;
  #changes: StateChange[] = [];
  #state: ExecutionState | null = null;
  #attempt = 1;
  #attemptsLeftOut: number;
  #lastUs = Number.NEGATIVE_INFINITY;
  #nowUs = 0;

  constructor(params: HistoryParams) {
    this.#params = params;
    // Each attempt given back by a stopped worker raised the limit by one, from that moment on.
    this.#attemptsLeftOut = params.history.filter(isRefund).length;
  }

  add(transition: StateTransition): StateChange[] {
    this.#changes = [];
    // A claim keeps the time at which its transaction began, which may be before the job was ready.
    this.#nowUs = Math.max(this.#nowUs, transition.at.getTime() * 1_000);
    // The oldest records of a job may be gone; what is left begins where its first transition does.
    if (this.#state === null && !isBirth(transition)) this.#state = wordOf(transition);
    if (isRefund(transition)) this.#attemptsLeftOut--;
    STEPS[transition.to].call(this, transition);
    return this.#changes;
  }

  created(transition: StateTransition): void {
    if (isBirth(transition)) this.emit('job.created', 'CREATED');
  }

  queued(transition: StateTransition): void {
    this.created(transition);
    if (this.#state === 'FAILED') this.#requeued(transition);
    // A delay that was part of a retry was a wait in the queue already.
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

  /** Written down with what followed, told at the time of the claim. */
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
    // A dropped automatic retry leaves the job as failed as it was.
    if (transition.reason === 'retry_dropped') return;
    const known = transition.timedOut === true ? 'timeout' : FAILURES[transition.reason];
    const reason = known ?? (this.#params.isForeign ? 'failure' : undefined);
    if (reason === undefined) throw illegal(this.#state, transition);
    const isExhausted = !this.#params.isForeign || transition.reason === 'attempts_exhausted';
    const told: Told = { reason, ...(isExhausted ? { retriesExhausted: true } : {}) };
    if (this.#isLast(transition)) this.emit('job.failed_final', 'FAILED', told);
    else this.emit(reason === 'timeout' ? 'job.timed_out' : 'job.failed', 'FAILED', { reason });
  }

  /** Elsewhere a job that failed for good ends in a state of its own; here only the attempts tell. */
  #isLast({ to, attempt }: StateTransition): boolean {
    if (this.#params.isForeign) return to !== 'retrying';
    return attempt >= this.#params.maxAttempts - this.#attemptsLeftOut;
  }

  canceled(transition: StateTransition): void {
    if (transition.from === 'scheduled' && transition.wasClaimed === true) this.#assigned(transition);
    this.emit('job.canceled', 'CANCELED', { reason: 'canceled' });
  }

  emit(eventName: ExecutionEventName, nextState: ExecutionState, told: Told = {}): void {
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
      ...told,
    });
  }
}

// Total, so that a core state cannot be added without saying what it tells here.
const STEPS: Readonly<Record<JobState, (this: Projector, transition: StateTransition) => void>> = {
  pending: Projector.prototype.created,
  delayed: Projector.prototype.delayed,
  scheduled: Projector.prototype.queued,
  running: Projector.prototype.running,
  retrying: Projector.prototype.failed,
  completed: Projector.prototype.succeeded,
  failed: Projector.prototype.failed,
  dead_letter: Projector.prototype.failed,
  cancelled: Projector.prototype.canceled,
};

const FAILURES: Partial<Record<Reason, ExecutionEventReason>> = {
  permanent_failure: 'failure',
  temporary_failure: 'failure',
  system_failure: 'failure',
  timed_out: 'timeout',
  worker_lost: 'worker_lost',
  released: 'worker_stopped',
  attempts_exhausted: 'retries_exhausted',
};

const isBirth = ({ from, reason }: StateTransition): boolean => from === null || reason === 'submitted';

const isRefund = ({ from, reason }: StateTransition): boolean => from === 'running' && reason === 'released';

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
