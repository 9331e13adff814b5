import type { ExecutionState } from '../core/execution/states.ts';
import type { Exchange } from './api.ts';
import { Histogram } from './histogram.ts';
import type { ReportRow } from './wire.ts';

/** The counts of one second of the run. */
export type Second = { submitted: number; finished: number; errors: number };

export class Stats {
  readonly startedMs = performance.now();
  /** From the planned time of a submission to its response. */
  readonly submitMs = new Histogram();
  /** From the due time of a job to its first run, by its events. */
  readonly waitMs = new Histogram();
  /** The duration of the attempt that decided the outcome. */
  readonly runMs = new Histogram();
  readonly exchangeMs = new Histogram();
  readonly exchanges = new Map<string, number>();
  readonly seconds: Second[] = [];
  readonly ended = new Map<ExecutionState, number>();
  submitted = 0;
  /** Responses with 429 or 503. */
  pauses = 0;
  cuts = 0;
  faults = 0;

  exchange({ route, status, ms }: Exchange): void {
    count(this.exchanges, `${route} ${status || 'cut'}`);
    this.exchangeMs.add(ms);
    if (status === 0) this.cuts++;
    else if (status === 429 || status === 503) this.pauses++;
    else if (status >= 500) this.faults++;
    else return;
    this.#second().errors++;
  }

  accepted(sinceIntendedMs: number, jobs = 1): void {
    this.submitted += jobs;
    this.submitMs.add(sinceIntendedMs);
    this.#second().submitted += jobs;
  }

  finished(state: ExecutionState): void {
    count(this.ended, state);
    this.#second().finished++;
  }

  /** Records how long a job waited and ran, as its report shows it. */
  reported({ execution_at, events, started_at, duration_ms }: ReportRow): void {
    const created = events[0]?.timestamp;
    const running = events.find(({ event_name }) => event_name === 'job.running')?.timestamp;
    if (created !== undefined && running !== undefined) {
      const dueMs = Math.max(Date.parse(created), execution_at === null ? 0 : Date.parse(execution_at));
      this.waitMs.add(Math.max(0, Date.parse(running) - dueMs));
    }
    if (started_at !== null && duration_ms !== null) this.runMs.add(duration_ms);
  }

  /** A finished job was retried. */
  reopened(state: ExecutionState): void {
    count(this.ended, state, -1);
  }

  get finishedCount(): number {
    return [...this.ended.values()].reduce((sum, one) => sum + one, 0);
  }

  /** The counts of the last complete second. */
  get lastSecond(): Second {
    const now = Math.floor((performance.now() - this.startedMs) / 1_000);
    return this.seconds[now - 1] ?? EMPTY;
  }

  #second(): Second {
    const now = Math.floor((performance.now() - this.startedMs) / 1_000);
    while (this.seconds.length <= now) this.seconds.push({ ...EMPTY });
    return this.seconds[now] as Second;
  }
}

const EMPTY: Second = Object.freeze({ submitted: 0, finished: 0, errors: 0 });

export function count<K>(counts: Map<K, number>, key: K, more = 1): void {
  counts.set(key, (counts.get(key) ?? 0) + more);
}
