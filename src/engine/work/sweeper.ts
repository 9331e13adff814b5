import { classify } from '../../core/failure.ts';
import type { Execution } from './execution.ts';
import type { AttemptOutcome } from './executor.ts';

export type SweeperOptions = {
  running: ReadonlyMap<number, Execution>;
  /** Called before the attempts are looked at. */
  onSweep(nowMs: number): void;
  /** A handler has run for a while and its start is not written. */
  onLate(execution: Execution): void;
  /** An attempt reached its limit. */
  onDue(execution: Execution, outcome: AttemptOutcome): void;
};

/** How often deadlines are looked at. A timer for each job would cost more than most jobs take. */
const SWEEP_MS = 20;
/** A handler that has run for this long gets its start written, if that did not happen before. */
const LATE_START_MS = 20;

/** Looks at the attempts of a worker at regular times, and finds those whose time is up. */
export class Sweeper {
  readonly #options: SweeperOptions;
  #timer: NodeJS.Timeout | undefined = undefined;

  constructor(options: SweeperOptions) {
    this.#options = options;
  }

  start(): void {
    this.#timer = setInterval(() => this.#sweep(), SWEEP_MS).unref();
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  #sweep(): void {
    const { running, onSweep, onLate, onDue } = this.#options;
    const nowMs = performance.now();
    onSweep(nowMs);
    for (const execution of running.values()) {
      if (!execution.hasStarted && nowMs - execution.startedMs >= LATE_START_MS) onLate(execution);
      if (nowMs < execution.deadlineMs) continue;
      if (execution.abortCause === 'cancel') onDue(execution, { kind: 'cancelled' });
      else onDue(execution, timedOut(execution));
    }
  }
}

/** The attempt ends at its limit whether or not the handler heeds the signal; what it does later is refused. */
function timedOut(execution: Execution): AttemptOutcome {
  const cause = execution.limitCause;
  execution.abort(cause);
  return { kind: 'failed', failure: classify(execution.abortError(), cause) };
}
