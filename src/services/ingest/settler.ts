import { FETCH_TYPE } from '../../core/ingest/fetch-task.ts';
import { isTerminal } from '../../core/states.ts';
import type { EventHub } from '../../engine/events.ts';
import { Loop, type Service } from '../../engine/loop.ts';
import { isContended } from '../../ledger/driver/statement.ts';
import { ingestJobsOfTasks, openIngestJobs } from '../../ledger/ingest/settle-jobs.ts';
import type { IngestContext } from './context.ts';
import { settleJob } from './settle-job.ts';

const FIRST_ID = '00000000-0000-0000-0000-000000000000';
/** How many open jobs a round looks at although no download of them ended here. It finds what other processes missed. */
const SWEPT_AT_ONCE = 20;
const SWEEP_EVERY_MS = 1_000;
const IDLE_EVERY_MS = 5_000;
/** Downloads that end together are noted together. */
const GATHER_MS = { least: 50, most: 1_000 };
/** A round rests for this many times as long as it took, and leaves the ledger to the downloads. */
const REST = 3;
const MOST_WAITING = 10_000;
/**
 * The sweep passes over a job whose downloads end here, because to look at a thousand resources each second took a tenth of the database's time.
 * `copied`: so long after a round for its downloads. `swept`: but not for longer than this, because a round may miss some.
 */
const PASSED_OVER_MS = { copied: 3_000, swept: 10_000 };

/**
 * Settles jobs whose downloads have ended. Downloads of this process wake it. The others, and those that end without a worker, such as
 * cancelled ones, are found by looking at all open jobs in turn.
 */
export class Settler implements Service {
  readonly #context: IngestContext;
  readonly #loop: Loop;
  readonly #tasks = new Set<string>();
  readonly #jobs = new Set<string>();
  readonly #events: EventHub;
  #off: (() => void)[] = [];
  /** When downloads of a job were copied here, and when the sweep looked at it. */
  readonly #looks = new Map<string, { copiedMs: number; sweptMs: number }>();
  #after = FIRST_ID;
  #sweptAtMs = Number.NEGATIVE_INFINITY;
  #sweepDelayMs = SWEEP_EVERY_MS;
  /** Until then a download that ends starts no round, because one follows anyway. */
  #restsUntilMs = Number.NEGATIVE_INFINITY;

  constructor(context: IngestContext) {
    this.#context = context;
    this.#events = context.engine.events;
    this.#loop = new Loop({ name: 'settler', round: () => this.round(), events: this.#events });
  }

  start(): void {
    const ended = ({ jobId }: { jobId: string }) => this.#wakeFor(jobId);
    const maybeEnded = (facts: { jobId: string; state: Parameters<typeof isTerminal>[0] }) => {
      if (isTerminal(facts.state)) ended(facts);
    };
    this.#off = [
      this.#events.onType('completed', FETCH_TYPE, ended),
      this.#events.onType('cancelled', FETCH_TYPE, ended),
      this.#events.onType('failed', FETCH_TYPE, maybeEnded),
      this.#events.onType('rescued', FETCH_TYPE, maybeEnded),
    ];
    this.#loop.start();
  }

  async stop(): Promise<void> {
    for (const off of this.#off) off();
    await this.#loop.stop();
  }

  /** Looks at these jobs soon. */
  look(jobIds: readonly string[]): void {
    for (const id of jobIds) if (this.#jobs.size < MOST_WAITING) this.#jobs.add(id);
    this.#loop.wake();
  }

  #wakeFor(taskId: string): void {
    // The sweep finds what is left out.
    if (this.#tasks.size < MOST_WAITING) this.#tasks.add(taskId);
    if (this.#tasks.size === 1 && performance.now() >= this.#restsUntilMs) this.#loop.wake();
  }

  /** Returns the delay until the next round. */
  async round(): Promise<number> {
    const startMs = performance.now();
    this.#restsUntilMs = Number.POSITIVE_INFINITY;
    const tasks = [...this.#tasks];
    const jobs = new Map<string, readonly string[] | null>();
    const looked = [...this.#jobs];
    this.#tasks.clear();
    this.#jobs.clear();
    const { maintenance } = this.#context.engine.database;
    if (tasks.length > 0) for (const [id, taskIds] of await ingestJobsOfTasks(maintenance, tasks)) jobs.set(id, taskIds);
    for (const id of [...looked, ...this.#unseen(await this.#sweep())]) jobs.set(id, null);
    for (const [id, taskIds] of jobs) await this.#settle(id, taskIds);
    const nowMs = performance.now();
    const isIdle = this.#tasks.size + this.#jobs.size + tasks.length === 0;
    const restMs = isIdle ? 0 : Math.min(GATHER_MS.most, Math.max(GATHER_MS.least, REST * (nowMs - startMs)));
    this.#restsUntilMs = nowMs + restMs;
    return isIdle ? this.#sweepDelayMs : restMs;
  }

  async #settle(id: string, taskIds: readonly string[] | null): Promise<void> {
    try {
      if (await settleJob(this.#context, id, taskIds)) this.#remember(id, taskIds === null);
    } catch (error) {
      // Another transaction holds a row of the job. The sweep comes back to it.
      if (!isContended(error)) throw error;
    }
  }

  #remember(id: string, isSweep: boolean): void {
    const nowMs = performance.now();
    const known = this.#looks.get(id);
    if (!isSweep) this.#looks.set(id, { copiedMs: nowMs, sweptMs: known?.sweptMs ?? nowMs });
    else if (known !== undefined) known.sweptMs = nowMs;
  }

  #unseen(ids: readonly string[]): string[] {
    const nowMs = performance.now();
    for (const [id, { copiedMs }] of this.#looks) if (nowMs - copiedMs >= PASSED_OVER_MS.copied) this.#looks.delete(id);
    return ids.filter((id) => nowMs - (this.#looks.get(id)?.sweptMs ?? Number.NEGATIVE_INFINITY) >= PASSED_OVER_MS.swept);
  }

  async #sweep(): Promise<string[]> {
    if (performance.now() - this.#sweptAtMs < SWEEP_EVERY_MS) return [];
    this.#sweptAtMs = performance.now();
    const ids = await openIngestJobs(this.#context.engine.database.maintenance, { after: this.#after, limit: SWEPT_AT_ONCE });
    this.#after = ids.length === SWEPT_AT_ONCE ? (ids.at(-1) as string) : FIRST_ID;
    this.#sweepDelayMs = ids.length === 0 ? IDLE_EVERY_MS : SWEEP_EVERY_MS;
    return ids;
  }
}
