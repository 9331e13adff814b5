/** The library on a database of its own, and handlers that a test writes where it needs them. */
import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { afterAll, afterEach, beforeAll } from 'vitest';
import { type Handler, type JobView, Millrace, type OpenOptions, type Submission } from '../../src/index.ts';
import { checkInvariants, type Violation } from '../../src/ledger/upkeep/invariants.ts';
import { type TestLedger, useLedger } from '../ledger/fixture.ts';
import { until } from '../until.ts';

const ACT = 'act';

/** A backoff so short that a test does not notice it. */
export const AT_ONCE = { initialDelay: '1ms', maxDelay: '1ms' } as const;

export type Bench = {
  ledger: TestLedger;
  /** Another Millrace on the same database, closed after the test. */
  open(options?: OpenOptions): Promise<Millrace>;
  /** One with a handler for each type given, already at work. */
  work(handlers: Record<string, Handler>, options?: OpenOptions): Promise<Millrace>;
  connect(): Promise<pg.Client>;
  /** Ends every connection of ours to the database at once, also those of other processes. */
  cut(): Promise<void>;
  violations(): Promise<Violation[]>;
};

/** Call once at the top of a test file. */
export function useBench(): Bench {
  const ledger = useLedger();
  const opened: Millrace[] = [];
  const clients: pg.Client[] = [];
  afterEach(async () => {
    await Promise.all(opened.splice(0).map((each) => each.close({ grace: 0 })));
    await Promise.all(clients.splice(0).map((each) => each.end().catch(() => {})));
  });
  const open = async (options: OpenOptions = {}) => {
    const millrace = await Millrace.open({ database: ledger.db.url, ...options });
    opened.push(millrace);
    return millrace;
  };
  return {
    ledger,
    open,
    async work(handlers, options) {
      const millrace = await open(options);
      for (const [type, handler] of Object.entries(handlers)) millrace.register({ type, handler });
      await millrace.start();
      return millrace;
    },
    async connect() {
      const client = new pg.Client({ connectionString: ledger.db.url });
      client.on('error', () => {});
      clients.push(client);
      await client.connect();
      return client;
    },
    async cut() {
      const admin = new pg.Client({ connectionString: ledger.db.url, application_name: 'cut' });
      await admin.connect();
      const { rows } = await admin.query(`SELECT pid, pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND application_name LIKE 'millrace%'`);
      // The server only signals its processes. A session that ends later would fail a statement long after the cut.
      const text = 'SELECT FROM pg_stat_activity WHERE datname = current_database() AND pid = ANY ($1)';
      await until('the sessions have ended', async () => (await admin.query(text, [rows.map(({ pid }) => pid)])).rowCount, 0);
      await admin.end();
    },
    violations: () => checkInvariants(ledger.db.maintenance),
  };
}

export type Stage = Bench & {
  readonly millrace: Millrace;
  /** Submits a job that does what the handler says. */
  act(handler: Handler, submission?: Partial<Submission>): Promise<string>;
  /** A submission of such a job, for those that are submitted in other ways. */
  acting(handler: Handler, submission?: Partial<Submission>): Submission;
  end(jobId: string): Promise<JobView>;
  /** Its changes of state, `running>retrying:temporary_failure`. */
  path(jobId: string): Promise<string[]>;
};

/** One Millrace at work for the whole file; each job brings its own handler. Call once at the top of a test file. */
export function useStage(options: OpenOptions = {}): Stage {
  const bench = useBench();
  const handlers = new Map<string, Handler>();
  let millrace: Millrace;
  beforeAll(async () => {
    millrace = await Millrace.open({ database: bench.ledger.db.url, ...options });
    const handler: Handler = (context, payload) => {
      const { handler: name, ...rest } = payload as { handler: string };
      return (handlers.get(name) as Handler)(context, rest);
    };
    millrace.register({ type: ACT, handler });
    await millrace.start();
  });
  afterAll(() => millrace.close({ grace: 0 }));
  const acting = (handler: Handler, submission: Partial<Submission> = {}): Submission => {
    const name = randomBytes(6).toString('hex');
    handlers.set(name, handler);
    return {
      type: ACT,
      backoff: AT_ONCE,
      ...submission,
      payload: { ...(submission.payload as object), handler: name },
    };
  };
  return {
    ...bench,
    get millrace() {
      return millrace;
    },
    acting,
    act: async (handler, submission) => (await millrace.submit(acting(handler, submission))).jobId,
    end: (jobId) => millrace.waitFor(jobId, { timeout: '60s' }),
    path: (jobId) => pathOf(millrace, jobId),
  };
}

export async function pathOf(millrace: Millrace, jobId: string): Promise<string[]> {
  const job = await millrace.get(jobId, { includeHistory: true });
  return (job?.history ?? []).map(({ from, to, reason }) => `${from ?? ''}>${to}:${reason}`);
}

/** Submits under a key until it is told that the job is there. */
export async function insist(millrace: Millrace, submission: Submission & { idempotencyKey: string }): Promise<string> {
  for (;;) {
    try {
      return (await millrace.submit(submission)).jobId;
    } catch {
      // The connection was cut. The key makes the repeat harmless.
    }
  }
}

/** The jobs, once all have ended. They are awaited together, because the job watcher rests after each look at the ledger. */
export const allEnded = (
  millrace: Millrace,
  submitted: readonly (string | { readonly jobId: string | null })[],
  timeout = '60s',
): Promise<JobView[]> =>
  Promise.all(submitted.map((each) => millrace.waitFor(typeof each === 'string' ? each : (each.jobId as string), { timeout })));

/** A gate that handlers wait at, and the number that came to it. */
export class Gate {
  arrived = 0;
  readonly #opened = Promise.withResolvers<void>();
  readonly #awaited: { count: number; resolve(): void }[] = [];

  open(): void {
    this.#opened.resolve();
  }

  pass(): Promise<void> {
    this.arrived++;
    for (const { count, resolve } of this.#awaited) if (this.arrived >= count) resolve();
    return this.#opened.promise;
  }

  reached(count = 1): Promise<void> {
    if (this.arrived >= count) return Promise.resolve();
    return new Promise((resolve) => this.#awaited.push({ count, resolve }));
  }
}

/** Never returns by itself; rejects when the attempt is stopped. */
export const untilAborted = (signal: AbortSignal): Promise<never> =>
  new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason);
    signal.addEventListener('abort', () => reject(signal.reason));
  });
