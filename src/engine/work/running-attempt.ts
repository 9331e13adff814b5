import type { AbortCause } from '../../core/failure.ts';
import { JobCancelledError, JobTimeoutError, LeaseLostError } from '../../core/failure.ts';
import type { Policy } from '../../core/policy.ts';
import type { StartedJob } from '../../ledger/attempts/claim-and-start.ts';
import { factsOf, type JobFacts } from '../events.ts';
import type { AttemptLines } from './attempt-lines.ts';
import type { RegisteredHandler } from './registry.ts';

const REASONS: Record<AbortCause, () => Error> = {
  timeout: () => new JobTimeoutError(),
  lifetime: () => new JobTimeoutError('the job exceeded its total lifetime'),
  cancel: () => new JobCancelledError(),
  lost_lease: () => new LeaseLostError(),
};

/** One attempt in the worker that runs it, from its start to its outcome. */
export class RunningAttempt {
  readonly job: StartedJob;
  readonly policy: Policy;
  readonly registered: RegisteredHandler;
  readonly claimNo: number;
  /** Read from the monotonic clock before the statement that started the job was sent. */
  readonly startedMs: number;
  /** How long the job was leased before it started; undefined if its claim started it. */
  readonly assignedMs: number | undefined;
  /** Whether the ledger has the start. While a late start is being written, `starting` is its promise. */
  hasStarted: boolean;
  starting: Promise<boolean> | null = null;
  abortCause: AbortCause | undefined = undefined;
  isCancelRequested = false;
  isCompletedByHandler = false;
  joinsChildren = false;
  /** Null until the handler logs its first line. */
  lines: AttemptLines | null = null;
  isConcluded = false;
  /** When the handler was called, on the monotonic clock. */
  calledMs = 0;
  /** When the attempt is ended by force, on the monotonic clock. */
  deadlineMs = Number.POSITIVE_INFINITY;
  #controller: AbortController | null = null;
  #signalCause: AbortCause | undefined = undefined;

  constructor(params: {
    job: StartedJob;
    policy: Policy;
    registered: RegisteredHandler;
    claimNo: number;
    startedMs: number;
    assignedMs?: number;
    startsLate?: boolean;
  }) {
    this.job = params.job;
    this.policy = params.policy;
    this.registered = params.registered;
    this.claimNo = params.claimNo;
    this.startedMs = params.startedMs;
    this.assignedMs = params.assignedMs;
    this.hasStarted = params.startsLate !== true;
    this.joinsChildren = params.registered.fanIn != null;
  }

  get timeLimitMs(): number {
    const { lifetimeLeftMs } = this.job;
    return lifetimeLeftMs === null ? this.policy.timeoutMs : Math.min(this.policy.timeoutMs, lifetimeLeftMs);
  }

  get limitCause(): AbortCause {
    const { lifetimeLeftMs } = this.job;
    return lifetimeLeftMs !== null && lifetimeLeftMs < this.policy.timeoutMs ? 'lifetime' : 'timeout';
  }

  /** Created on first use, because most handlers never read it. */
  get signal(): AbortSignal {
    if (this.#controller === null) {
      this.#controller = new AbortController();
      if (this.#signalCause !== undefined) this.#controller.abort(REASONS[this.#signalCause]());
    }
    return this.#controller.signal;
  }

  abort(cause: AbortCause): void {
    if (this.abortCause !== undefined) return;
    this.abortCause = cause;
    this.#abortSignal(cause);
  }

  /** A plain request aborts the signal, and the handler may still complete. With `force`, its result no longer counts. */
  requestCancel(force: boolean): void {
    this.isCancelRequested = true;
    if (this.abortCause !== undefined) return;
    if (!force) {
      if (!this.registered.cancelsCooperatively) this.#abortSignal('cancel');
      return;
    }
    this.abort('cancel');
    this.deadlineMs = performance.now() + this.policy.cancelGraceMs;
  }

  /** Whether the handler was being stopped because of a cancel request, so that an error from it is not a failure of the job. */
  get isStoppedByCancel(): boolean {
    return this.#signalCause === 'cancel' && (this.abortCause === undefined || this.abortCause === 'cancel');
  }

  #abortSignal(cause: AbortCause): void {
    if (this.#signalCause !== undefined) return;
    this.#signalCause = cause;
    this.#controller?.abort(REASONS[cause]());
  }

  get facts(): JobFacts {
    return factsOf(this.job);
  }

  get elapsedMs(): number {
    return performance.now() - this.startedMs;
  }

  /** Unlike `elapsedMs`, this does not include the time that the claim took. */
  get handlerMs(): number {
    return performance.now() - this.calledMs;
  }

  abortError(): Error {
    return REASONS[this.abortCause ?? 'lost_lease']();
  }
}
