import { type DurationInput, durationMs } from '../core/duration.ts';
import { AppError } from '../core/errors.ts';
import { checkMembers, membersOf } from '../core/known-members.ts';
import type { Submission } from '../core/submission.ts';
import { stopClockAt } from '../ledger/driver/clock.ts';
import { type Database, openDatabase } from '../ledger/driver/database.ts';
import { type JobOutcome, keepOutcomes, readOutcomes } from '../ledger/history/outcome-journal.ts';
import { readNextTimes } from '../ledger/queues/due-work.ts';
import { Millrace } from '../library/millrace.ts';
import type { OpenOptions } from '../library/open-options.ts';
import type { JobOf, JobTypes, SubmissionOf, TypeOf } from '../library/typed-jobs.ts';
import { createDisposable, type DisposableDatabase } from '../postgres/disposable.ts';
import { runRound } from './round.ts';

/** Options of `openTestMillrace`. Each has a default. */
export type TestMillraceOptions = Pick<
  OpenOptions,
  'concurrency' | 'defaults' | 'maxPayloadBytes' | 'maxResultBytes' | 'home' | 'objects' | 'onNotice'
> & {
  /** The server on which to create the test database. Default: DATABASE_URL, else the embedded server. */
  database?: string;
  /** The initial time of the clock. Default: now. */
  startAt?: Date;
  /** The limit of one run in real time. Default: 30 s. */
  limit?: DurationInput;
};

const OPTIONS = membersOf<TestMillraceOptions>({
  concurrency: true,
  defaults: true,
  maxPayloadBytes: true,
  maxResultBytes: true,
  home: true,
  objects: true,
  onNotice: true,
  database: true,
  startAt: true,
  limit: true,
});

const MAX_JUMPS = 1_000;

/** Opens a Millrace in a new database, whose clock stands still until the test moves it. */
export async function openTestMillrace<Jobs extends JobTypes = JobTypes>(options: TestMillraceOptions = {}): Promise<TestMillrace<Jobs>> {
  checkMembers(options, OPTIONS);
  const { database, home, onNotice, startAt = new Date(), limit = '30s', ...rest } = options;
  const limitMs = durationMs(limit, 'limit');
  const own = await createDisposable({ databaseUrl: database, home, onNotice, prefix: 'millrace_test_' });
  try {
    const millrace = await Millrace.open<Jobs>({ ...rest, database: own.url, onNotice });
    const ledger = openDatabase({ url: own.url });
    await stopClockAt(ledger.maintenance, startAt);
    await keepOutcomes(ledger.maintenance);
    return new TestMillrace<Jobs>({ millrace, ledger, own, startAt, limitMs });
  } catch (error) {
    await own.drop();
    throw error;
  }
}

type Parts<Jobs extends JobTypes> = {
  millrace: Millrace<Jobs>;
  ledger: Database;
  own: DisposableDatabase;
  startAt: Date;
  limitMs: number;
};

/** Jobs run on the real engine, and only inside run(), runJob(), advance() and fastForward(). */
export class TestMillrace<Jobs extends JobTypes = JobTypes> {
  /** The instance under test. */
  readonly millrace: Millrace<Jobs>;
  /** Registers a handler, as `Millrace.register` does. */
  readonly register: Millrace<Jobs>['register'];
  /** Submits a job, as `Millrace.submit` does. */
  readonly submit: Millrace<Jobs>['submit'];
  readonly #parts: Parts<Jobs>;
  #nowMs: number;
  #lastOutcome = 0;
  #isBusy = false;
  #closing: Promise<void> | null = null;

  constructor(parts: Parts<Jobs>) {
    this.#parts = parts;
    this.#nowMs = parts.startAt.getTime();
    this.millrace = parts.millrace;
    this.register = parts.millrace.register.bind(parts.millrace);
    this.submit = parts.millrace.submit.bind(parts.millrace);
  }

  /** The time of the ledger's clock. */
  now(): Date {
    return new Date(this.#nowMs);
  }

  /** Runs everything that is due, including jobs that become due meanwhile. Returns the outcomes since the last call. */
  run(): Promise<JobOutcome[]> {
    return this.#alone(() => this.#round());
  }

  /** Submits one job, runs everything that is due, and returns that job with its history. */
  async runJob<T extends TypeOf<Jobs>>(
    type: T,
    payload: Jobs[T]['payload'],
    options: Omit<Submission, 'type' | 'payload'> = {},
  ): Promise<JobOf<Jobs, T>> {
    const { jobId } = await this.submit({ ...options, type, payload } as unknown as SubmissionOf<Jobs> & { type: T });
    await this.run();
    return (await this.millrace.get(jobId, { includeHistory: true })) as JobOf<Jobs, T>;
  }

  /** Moves the clock in one step, as if no process had run meanwhile, then runs everything that is due. */
  advance(by: DurationInput): Promise<JobOutcome[]> {
    return this.#alone(async () => {
      await this.#moveTo(this.#nowMs + durationMs(by, 'by'));
      return this.#round();
    });
  }

  /**
   * Moves the clock to each time at which something becomes due, in order. Ends when no job waits for a time, or after `by`.
   * Schedules fire on the way.
   */
  fastForward(by?: DurationInput): Promise<JobOutcome[]> {
    const endMs = by === undefined ? null : this.#nowMs + durationMs(by, 'by');
    return this.#alone(async () => {
      const outcomes = await this.#round();
      for (let jumps = 0; jumps < MAX_JUMPS; jumps++) {
        const nextMs = await this.#nextStop(endMs);
        if (nextMs === null) return outcomes;
        await this.#moveTo(nextMs);
        outcomes.push(...(await this.#round()));
      }
      throw new AppError('TIMED_OUT', {
        message: `More jobs become due after ${MAX_JUMPS} steps of the clock. Pass a duration to fastForward.`,
      });
    });
  }

  /** Stops the engine and drops the database. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  /** Closes the instance at the end of an `await using` block. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #close(): Promise<void> {
    const { millrace, ledger, own } = this.#parts;
    await millrace.close({ grace: 0 });
    await ledger.close();
    await own.drop();
  }

  async #round(): Promise<JobOutcome[]> {
    const { millrace, ledger, limitMs } = this.#parts;
    await runRound({ millrace, db: ledger.maintenance, limitMs });
    const { outcomes, last } = await readOutcomes(ledger.maintenance, this.#lastOutcome);
    this.#lastOutcome = last;
    return outcomes;
  }

  async #moveTo(ms: number): Promise<void> {
    await stopClockAt(this.#parts.ledger.maintenance, new Date(ms));
    this.#nowMs = ms;
  }

  /** The next time at which something becomes due, or null. */
  async #nextStop(endMs: number | null): Promise<number | null> {
    const { jobAt, scheduleAt } = await readNextTimes(this.#parts.ledger.maintenance);
    // Schedules never run out, so without an end only jobs count.
    if (endMs === null && jobAt === null) return null;
    if (endMs !== null && this.#nowMs >= endMs) return null;
    const times = [jobAt?.getTime(), scheduleAt?.getTime(), endMs].filter((ms) => typeof ms === 'number');
    return Math.max(this.#nowMs, Math.min(...times));
  }

  async #alone<T>(work: () => Promise<T>): Promise<T> {
    if (this.#closing !== null) throw new AppError('CLOSED', { message: 'This test Millrace is closed. Open another one.' });
    if (this.#isBusy) throw new AppError('ALREADY_RUNNING', { message: 'Another run is in progress: await it first.' });
    this.#isBusy = true;
    try {
      return await work();
    } finally {
      this.#isBusy = false;
    }
  }
}
