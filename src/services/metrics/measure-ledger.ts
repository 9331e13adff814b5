import type { Engine } from '../../engine/engine.ts';
import { raceWithTimeout } from '../../engine/race-with-timeout.ts';
import { type MetricCounts, readMetricCounts } from '../../ledger/history/metric-counts.ts';
import { countRunning, type QueueAge, readQueueAges } from '../../ledger/queues/queue-ages.ts';
import { checkReadiness } from '../admission/check-readiness.ts';

export type LedgerMeasures = MetricCounts & {
  readonly queues: readonly QueueAge[];
  readonly running: number;
  readonly workers: number | null;
};

/** Scrapes within this time of each other read the database once. */
const FRESH_MS = 1_000;
/** A scrape does not wait longer. Prometheus gives up after 10 s, and the metrics of the process should still arrive. */
const READ_MS = 1_000;

/** Reads from the database what all processes together did, at most once a second. */
export class LedgerGauge {
  readonly #engine: Pick<Engine, 'database'>;
  readonly #freshMs: number;
  #last: LedgerMeasures | null = null;
  #readAtMs = Number.NEGATIVE_INFINITY;
  #reading: Promise<LedgerMeasures | null> | null = null;

  constructor(engine: Pick<Engine, 'database'>, freshMs: number = FRESH_MS) {
    this.#engine = engine;
    this.#freshMs = freshMs;
  }

  /** Null if the database did not respond in time. */
  async measure(): Promise<LedgerMeasures | null> {
    if (performance.now() - this.#readAtMs < this.#freshMs) return this.#last;
    this.#reading ??= this.#read().finally(() => {
      this.#reading = null;
    });
    return raceWithTimeout(this.#reading, READ_MS, () => null);
  }

  async #read(): Promise<LedgerMeasures | null> {
    const db = this.#engine.database.maintenance;
    try {
      const [counted, queues, running, { workers }] = await Promise.all([
        readMetricCounts(db),
        readQueueAges(db),
        countRunning(db),
        checkReadiness(this.#engine),
      ]);
      this.#last = { ...counted, queues, running, workers };
    } catch {
      this.#last = null;
    }
    this.#readAtMs = performance.now();
    return this.#last;
  }
}
