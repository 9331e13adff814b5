import { writeSync } from 'node:fs';
import { formatDuration } from '../../core/duration.ts';
import { stopWorker } from '../../ledger/attempts/workers.ts';
import type { Queryable } from '../../ledger/driver/statement.ts';
import type { OverdueAttempt } from './act-for-stalled.ts';
import type { StallWatch } from './stall-watch.ts';
import { PLACE } from './thread-memory.ts';

export type GiveUpOptions = {
  session: Queryable;
  workerId: number;
  watch: StallWatch;
  processMemory: SharedArrayBuffer;
  /** Whether to end the process. */
  mayEnd(): boolean;
};

/** A handler that ends shortly after its timeout keeps its process. */
const CONFIRM_MS = 1_000;
/** Between the return of the jobs and the end of the process. */
const END_AFTER_MS = 5_000;

/**
 * Gives up a process whose event loop is blocked and stays so past the timeout of an attempt. The worker is stopped in the ledger, and
 * rescuers of other processes take over its jobs as they do for a worker that died. A few seconds later the process is killed: it
 * can no longer handle SIGTERM. All heartbeat threads of a process give up together.
 */
export class GiveUp {
  readonly #options: GiveUpOptions;
  readonly #places: Float64Array;
  #overdue: OverdueAttempt | null = null;
  /** How long the stall had been witnessed when the attempt was overdue. */
  #overdueMs = 0;
  #isStopped = false;
  #isReported = false;

  constructor(options: GiveUpOptions) {
    this.#options = options;
    this.#places = new Float64Array(options.processMemory);
  }

  /** These attempts ran past their timeout while the event loop was blocked. */
  note(overdue: readonly OverdueAttempt[]): void {
    if (this.#overdue !== null || overdue.length === 0) return;
    const called = this.#places[PLACE.calledLease];
    this.#overdue = overdue.find(({ leaseSeq }) => leaseSeq === called) ?? (overdue[0] as OverdueAttempt);
    this.#overdueMs = this.#options.watch.witnessedMs;
  }

  /** The event loop runs again. If the worker was stopped meanwhile, its next heartbeat says so, and another one replaces it. */
  withdraw(): void {
    this.#overdue = null;
    this.#isReported = false;
  }

  /** Call it again and again while the event loop is blocked. */
  async proceed(): Promise<void> {
    if (this.#isDue(CONFIRM_MS)) this.#places[PLACE.isGivenUp] = 1;
    if (this.#isDue(CONFIRM_MS + END_AFTER_MS)) this.#end();
    if (this.#places[PLACE.isGivenUp] !== 1 || this.#isStopped) return;
    await stopWorker(this.#options.session, this.#options.workerId);
    this.#isStopped = true;
  }

  #isDue(afterMs: number): boolean {
    const { witnessedMs, stalledMs = 0 } = this.#options.watch;
    if (this.#overdue === null || witnessedMs - this.#overdueMs < afterMs) return false;
    // The handler that is known to block may still be within its own timeout, and only a neighbour ran past a shorter one.
    const isKnown = this.#places[PLACE.calledLease] !== 0;
    return !isKnown || stalledMs >= (this.#places[PLACE.calledLimitMs] as number);
  }

  #end(): void {
    const mayEnd = this.#options.mayEnd();
    if (this.#overdue !== null && !this.#isReported) this.#report(this.#overdue, mayEnd);
    this.#isReported = true;
    // `process.exit` of a thread ends only the thread, and SIGKILL is the one signal that no handler can delay.
    if (mayEnd) process.kill(process.pid, 'SIGKILL');
  }

  /** The streams of the process need its event loop, so this writes directly. */
  #report(overdue: OverdueAttempt, mayEnd: boolean): void {
    const sentences = sentencesAbout(overdue, this.#options.watch.stalledMs ?? 0, mayEnd);
    const { jobId, jobType } = overdue;
    const fields = { level: 'error', time: new Date().toISOString(), job_id: jobId, job_type: jobType, reason: sentences };
    const line = this.#places[PLACE.logsJson] === 1 ? JSON.stringify({ ...fields, message: BLOCKED }) : `millrace: ${sentences}`;
    try {
      writeSync(2, `${line}\n`);
    } catch {
      // stderr is closed, so there is nowhere to write this.
    }
  }
}

const BLOCKED = 'process.blocked';

function sentencesAbout({ jobId, jobType, timeoutMs }: OverdueAttempt, stalledMs: number, mayEnd: boolean): string {
  return [
    `The event loop of this process (${process.pid}) has been blocked for ${formatDuration(Math.round(stalledMs / 1_000) * 1_000)}.`,
    `Job ${jobId} of type ${jobType} ran past its timeout of ${formatDuration(timeoutMs)} in this time. Other workers take over the jobs of this process.`,
    mayEnd
      ? 'The process ends now with SIGKILL, because it can no longer handle SIGTERM.'
      : 'The process is not ended, because exitWhenBlocked is false, a debugger may be attached, or it runs jobs in a thread.',
    'Handlers must yield: use await, or move long computations to a worker thread or to a child process.',
  ].join(' ');
}
