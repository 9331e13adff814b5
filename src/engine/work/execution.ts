import type { AbortCause } from '../../core/failure.ts';
import { JobCancelledError, JobTimeoutError, LeaseLostError } from '../../core/failure.ts';
import type { Policy } from '../../core/policy.ts';
import type { StartedJob } from '../../ledger/attempts/take-jobs.ts';
import type { JobFacts } from '../events.ts';
import type { RegisteredHandler } from './registry.ts';

const REASONS: Record<AbortCause, () => Error> = {
  timeout: () => new JobTimeoutError(),
  lifetime: () => new JobTimeoutError('the job exceeded its total lifetime'),
  cancel: () => new JobCancelledError(),
  lost_lease: () => new LeaseLostError(),
};

/** One attempt of one job on this worker, from its start to its outcome. */
export class Execution {
  readonly job: StartedJob;
  readonly policy: Policy;
  readonly registered: RegisteredHandler;
  readonly claimNo: number;
  /** On this machine's monotonic clock, from before the statement that started it was sent. */
  readonly startedMs: number;
  /** How long the job was under lease before; absent where its claim started it. */
  readonly assignedMs: number | undefined;
  /** Whether the ledger has the start. Where the handler runs ahead of that, `starting` is the start on its way. */
  hasStarted: boolean;
  starting: Promise<boolean> | null = null;
  abortCause: AbortCause | undefined = undefined;
  isCancelRequested = false;
  isCompletedByHandler = false;
  joinsChildren = false;
  isConcluded = false;
  /** When to end it by force, on the monotonic clock. */
  deadlineMs = Number.POSITIVE_INFINITY;
  #controller: AbortController | null = null;

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
    this.joinsChildren = params.registered.fanIn;
  }

  get timeLimitMs(): number {
    const { lifetimeLeftMs } = this.job;
    return lifetimeLeftMs === null ? this.policy.timeoutMs : Math.min(this.policy.timeoutMs, lifetimeLeftMs);
  }

  get limitCause(): AbortCause {
    const { lifetimeLeftMs } = this.job;
    return lifetimeLeftMs !== null && lifetimeLeftMs < this.policy.timeoutMs ? 'lifetime' : 'timeout';
  }

  /** Made on demand: most handlers never look at it. */
  get signal(): AbortSignal {
    if (this.#controller === null) {
      this.#controller = new AbortController();
      if (this.abortCause !== undefined) this.#controller.abort(REASONS[this.abortCause]());
    }
    return this.#controller.signal;
  }

  abort(cause: AbortCause): void {
    if (this.abortCause !== undefined) return;
    this.abortCause = cause;
    this.#controller?.abort(REASONS[cause]());
  }

  requestCancel(force: boolean): void {
    this.isCancelRequested = true;
    if (!force || this.abortCause !== undefined) return;
    this.abort('cancel');
    this.deadlineMs = performance.now() + this.policy.cancelGraceMs;
  }

  get facts(): JobFacts {
    const { id, jobType, attemptsStarted, orgId, tags, createdAtMs } = this.job;
    return { jobId: id, type: jobType, attempt: attemptsStarted, orgId, tags, createdAtMs };
  }

  get elapsedMs(): number {
    return performance.now() - this.startedMs;
  }

  abortError(): Error {
    return REASONS[this.abortCause ?? 'lost_lease']();
  }
}
