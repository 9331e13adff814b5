import { classify } from '../../core/failure.ts';
import type { HandlerOutcome } from './executor.ts';
import type { RunningAttempt } from './running-attempt.ts';

export type DeadlineTimerOptions = {
  running: ReadonlyMap<number, RunningAttempt>;
  /** Called before the attempts are checked. */
  onTick(nowMs: number): void;
  /** A handler has run for a while and its start is not written. */
  onLateStart(attempt: RunningAttempt): void;
  /** An attempt reached its deadline. */
  onDeadline(attempt: RunningAttempt, outcome: HandlerOutcome): void;
};

/** How often deadlines are checked. A timer for each job would cost more than most jobs take. */
const TICK_MS = 20;
/** A handler that has run for this long has its start written, if that has not happened yet. */
const LATE_START_MS = 20;

/** Ends the attempts of a worker at their deadlines, with one timer for all of them. */
export class DeadlineTimer {
  readonly #options: DeadlineTimerOptions;
  #timer: NodeJS.Timeout | undefined = undefined;

  constructor(options: DeadlineTimerOptions) {
    this.#options = options;
  }

  start(): void {
    this.#timer = setInterval(() => this.#tick(), TICK_MS).unref();
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  #tick(): void {
    const { running, onTick, onLateStart, onDeadline } = this.#options;
    const nowMs = performance.now();
    onTick(nowMs);
    for (const attempt of running.values()) {
      if (!attempt.hasStarted && nowMs - attempt.startedMs >= LATE_START_MS) onLateStart(attempt);
      if (nowMs < attempt.deadlineMs) continue;
      if (attempt.abortCause === 'cancel') onDeadline(attempt, { kind: 'cancelled' });
      else onDeadline(attempt, timedOut(attempt));
    }
  }
}

/** The attempt ends at its deadline even if the handler ignores the signal. The ledger refuses later writes of the handler. */
function timedOut(attempt: RunningAttempt): HandlerOutcome {
  const cause = attempt.limitCause;
  attempt.abort(cause);
  return { kind: 'failed', failure: classify(attempt.abortError(), cause) };
}
