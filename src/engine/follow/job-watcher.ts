import { AppError } from '../../core/errors.ts';
import type { Job } from '../../core/job.ts';
import { wholeOrg } from '../../core/owner.ts';
import { isTerminal, type JobState } from '../../core/states.ts';
import type { Database } from '../../ledger/driver/database.ts';
import { isPassing } from '../../ledger/driver/statement.ts';
import { findEnded } from '../../ledger/reads/find-ended.ts';
import { getJobsOfOrgs } from '../../ledger/reads/get-job.ts';
import type { EventHub } from '../events.ts';
import { Loop } from '../loop.ts';

const FIRST_LOOK_MS = 25;
const LONGEST_LOOK_MS = 1_000;
const MAX_PER_LOOK = 5_000;
const MAX_PER_READ = 200;
const MAX_CALLERS = 100_000;
const IDLE_MS = 60_000;
const RETRY_AFTER_MS = 1_000;
/** How long the database may fail to respond before callers get an error. */
const PATIENCE_MS = 5_000;
/** Look-ups take at most a twentieth of the time of one connection, reads at most a quarter. */
const LOOK_PAUSE = 19;
const READ_PAUSE = 3;
const MAX_REST_MS = 1_000;

type Caller = { resolve(job: Job | null): void; reject(error: unknown): void };

/** Only programs that work for a whole org wait for jobs. */
type NamedJob = { readonly orgId: string; readonly id: string };

type Watched = NamedJob & {
  readonly callers: Set<Caller>;
  /** When to look it up next, and how long to wait after that. */
  dueMs: number;
  pauseMs: number;
  /** An event of this process says that the job has ended, so it is to be read. */
  isEnding: boolean;
};

/** Resolves with null if the org has no such job. */
export type Watch = { readonly ended: Promise<Job | null>; leave(): void };

/**
 * Waits for jobs to end, for all callers in this process. A job that ends in this process is read immediately. All others
 * are looked up by one statement for all that are due: each after 25 ms at first, and in the end once a second. The
 * longer these statements take, the longer the pauses between them, so that waiting callers never slow down the work
 * that they wait for.
 */
export class JobWatcher {
  readonly #database: Database;
  readonly #events: EventHub;
  readonly #watched = new Map<string, Watched>();
  readonly #loop: Loop;
  #ending: Watched[] = [];
  #callers = 0;
  #restUntilMs = 0;
  #failingSinceMs: number | null = null;
  #stopListening: (() => void)[] = [];
  #isStopped = false;

  constructor({ database, events }: { database: Database; events: EventHub }) {
    this.#database = database;
    this.#events = events;
    this.#loop = new Loop({ name: 'job watcher', round: () => this.#round(), events });
  }

  get callers(): number {
    return this.#callers;
  }

  watch({ orgId, id }: NamedJob): Watch {
    if (this.#isStopped) throw new AppError('SHUTTING_DOWN');
    if (this.#callers >= MAX_CALLERS)
      throw new AppError('UNAVAILABLE', {
        message: 'Too many callers wait for jobs. Try again in a moment.',
        retryAfterMs: RETRY_AFTER_MS,
      });
    const key = keyOf(orgId, id);
    const watched = this.#watched.get(key) ?? this.#add(key, { orgId, id });
    const { promise: ended, resolve, reject } = Promise.withResolvers<Job | null>();
    const caller = { resolve, reject };
    watched.callers.add(caller);
    this.#callers++;
    return { ended, leave: () => this.#leave(watched, caller) };
  }

  /** Rejects all callers that still wait. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    for (const watched of [...this.#watched.values()]) this.#reject(watched, new AppError('SHUTTING_DOWN'));
    await this.#loop.stop();
  }

  #add(key: string, { orgId, id }: NamedJob): Watched {
    if (this.#watched.size === 0) this.#listen();
    const watched = { orgId, id, callers: new Set<Caller>(), dueMs: 0, pauseMs: FIRST_LOOK_MS, isEnding: false };
    this.#watched.set(key, watched);
    this.#wake();
    return watched;
  }

  #leave(watched: Watched, caller: Caller): void {
    if (!watched.callers.delete(caller)) return;
    this.#callers--;
    if (watched.callers.size > 0) return;
    this.#watched.delete(keyOf(watched.orgId, watched.id));
    if (this.#watched.size > 0) return;
    for (const stop of this.#stopListening) stop();
    this.#stopListening = [];
  }

  #listen(): void {
    const heard = ({ orgId, jobId, state }: { orgId: string; jobId: string; state?: JobState }) => {
      const watched = this.#watched.get(keyOf(orgId, jobId));
      if (watched !== undefined && (state === undefined || isTerminal(state))) this.#markEnding(watched);
    };
    const events = ['completed', 'failed', 'cancelled', 'rescued'] as const;
    this.#stopListening = events.map((event) => this.#events.on(event, heard));
  }

  #markEnding(watched: Watched): void {
    if (watched.isEnding) return;
    watched.isEnding = true;
    this.#ending.push(watched);
    this.#wake();
  }

  // A loop that rests is not woken, because that would end its rest.
  #wake(): void {
    this.#loop.start();
    if (performance.now() >= this.#restUntilMs) this.#loop.wake();
  }

  async #round(): Promise<number> {
    await new Promise(setImmediate); // All callers and endings of this turn of the event loop share a statement.
    const restMs = this.#restUntilMs - performance.now();
    if (restMs > 0) return restMs;
    const batch = this.#takeEnding();
    if (batch.length > 0) await this.#timed(READ_PAUSE, batch, () => this.#read(batch));
    else {
      const due = this.#takeDue();
      if (due.length > 0) await this.#timed(LOOK_PAUSE, due, () => this.#look(due));
    }
    return this.#pauseMs();
  }

  /** The loop first rests after a statement. Only then does it sleep until a job is due. */
  #pauseMs(): number {
    const nowMs = performance.now();
    if (this.#restUntilMs > nowMs) return this.#restUntilMs - nowMs;
    if (this.#ending.length > 0) return 0;
    let dueMs = nowMs + IDLE_MS;
    for (const watched of this.#watched.values()) if (watched.dueMs < dueMs) dueMs = watched.dueMs;
    return Math.max(0, dueMs - nowMs);
  }

  async #timed(restFactor: number, batch: readonly Watched[], work: () => Promise<void>): Promise<void> {
    const startedMs = performance.now();
    try {
      await work();
      this.#failingSinceMs = null;
    } catch (error) {
      this.#failingSinceMs ??= startedMs;
      this.#putBack(batch);
      const isOver = !isPassing(error) || performance.now() - this.#failingSinceMs > PATIENCE_MS;
      if (isOver) for (const watched of batch) this.#reject(watched, error);
      throw error;
    } finally {
      const endedMs = performance.now();
      this.#restUntilMs = endedMs + Math.min(MAX_REST_MS, restFactor * (endedMs - startedMs));
    }
  }

  #takeEnding(): Watched[] {
    const batch = this.#ending.slice(0, MAX_PER_READ);
    this.#ending = this.#ending.slice(MAX_PER_READ);
    return batch.filter(({ callers }) => callers.size > 0);
  }

  async #read(batch: readonly Watched[]): Promise<void> {
    const wanted = batch.map(({ orgId, id }) => ({ ...wholeOrg(orgId), id, payload: true, result: true }));
    const jobs = (await getJobsOfOrgs(this.#database.api, wanted)) as (Job | null)[];
    for (const [index, watched] of batch.entries()) {
      const job = jobs[index] ?? null;
      // A job that waits for its children was reported as completed and still runs.
      if (job === null || isTerminal(job.state)) this.#resolve(watched, job);
      else this.#putBack([watched]);
    }
  }

  #takeDue(): Watched[] {
    const soonMs = performance.now() + FIRST_LOOK_MS / 2;
    const due: Watched[] = [];
    for (const watched of this.#watched.values()) {
      if (watched.isEnding || watched.dueMs > soonMs) continue;
      due.push(watched);
      if (due.length === MAX_PER_LOOK) break;
    }
    return due;
  }

  async #look(due: readonly Watched[]): Promise<void> {
    const positions = await findEnded(this.#database.api, due);
    const nowMs = performance.now();
    for (const watched of due) {
      watched.dueMs = nowMs + watched.pauseMs;
      watched.pauseMs = Math.min(LONGEST_LOOK_MS, watched.pauseMs * 1.5);
    }
    for (const position of positions) this.#markEnding(due[position] as Watched);
  }

  #putBack(batch: readonly Watched[]): void {
    const dueMs = performance.now() + FIRST_LOOK_MS;
    for (const watched of batch) {
      watched.isEnding = false;
      watched.dueMs = dueMs;
    }
  }

  #resolve(watched: Watched, job: Job | null): void {
    for (const caller of [...watched.callers]) {
      this.#leave(watched, caller);
      caller.resolve(job);
    }
  }

  #reject(watched: Watched, error: unknown): void {
    for (const caller of [...watched.callers]) {
      this.#leave(watched, caller);
      caller.reject(error);
    }
  }
}

const keyOf = (orgId: string, id: string): string => `${orgId}/${id}`;
