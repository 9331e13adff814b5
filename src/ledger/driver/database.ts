import pg from 'pg';
import { BoundedPool, type PoolBounds } from './bounded-pool.ts';
import { PROJECTOR } from './horizon.ts';
import { Pipeline } from './pipeline.ts';
import { SESSION_BOUNDS, type SessionSettings, toOptions, verifySession } from './session-bounds.ts';
import { isContended, isUnanswered, MAX_TRIES, pauseAfter, translated } from './statement.ts';

/** Pools apart, so that no kind of work can starve another of connections. */
export type Database = {
  readonly url: string;
  readonly api: pg.Pool;
  /** For searches, which nobody's write should wait behind: their statements have less time. */
  readonly searching: pg.Pool;
  readonly workers: pg.Pool;
  readonly maintenance: pg.Pool;
  /** For the projector alone: see `horizon.ts`. */
  readonly projecting: pg.Pool;
  /** Kept by the submitter, the producer and the completer, who send one statement after the other. */
  readonly submitting: Pipeline;
  /** For the submitter as well, while the process can spare a session: two statements then share a flush of the log. */
  readonly submittingMore: Pipeline;
  readonly claiming: Pipeline;
  readonly finishing: Pipeline;
  readonly sharesSessions: boolean;
  close(): Promise<void>;
};

// The hot statements join a handful of known rows to large tables: always by index. Left to its estimates, the planner
// at times hashes the whole table (measured: 14 of 28 ms of a finish of 500 jobs were one sequential scan). None is worth helpers:
// to start them takes longer (measured: 10 to 30 ms of a search) than the statement.
const PLANNER: SessionSettings = {
  plan_cache_mode: 'force_generic_plan',
  enable_hashjoin: 'off',
  enable_mergejoin: 'off',
  enable_seqscan: 'off',
  max_parallel_workers_per_gather: '0',
  jit: 'off',
};

// Rows of claims come and go: an index scan leaves a mark at the dead ones and passes them by the next time, a bitmap reads them
// all again (measured: 9 400 entries for 15 claims, in each claim under a cap).
export const NO_BITMAPS: SessionSettings = { ...PLANNER, enable_bitmapscan: 'off' };

const LONG_STATEMENTS: SessionSettings = { jit: 'off' };

/** Whatever holds up a claim holds up every job of its worker. */
export const CLAIM_TIMEOUT_MS = 2_000;
/** A statement that carries jobs of many owners waits no longer for a row that one of them has locked. */
const SHARED_LOCK_TIMEOUT_MS = 50;
/** A search looks at so many jobs and no more: tens of milliseconds. One that takes this long is held up. */
const SEARCH_TIMEOUT_MS = 2_000;

const INT8 = 20;

/** bigint as number (sequences stay far below 2^53), everything else as node-postgres has it. */
export const types = {
  getTypeParser(oid: number, format?: 'text' | 'binary') {
    if (oid === INT8 && format !== 'binary') return Number;
    return pg.types.getTypeParser(oid, format as 'text');
  },
} as unknown as pg.CustomTypesConfig;

export type DatabaseParams = {
  url: string;
  apiPool?: number;
  workerPool?: number;
  /** A process that works: its pools have one session each and one more between them, unless a size is given. */
  sharesSessions?: boolean;
  /** How many may wait for a connection of the API, whoever comes then only for a moment; without it, any number. */
  apiBounds?: PoolBounds;
};

type Kind = { name: string; statementTimeoutMs: number; lockTimeoutMs?: number; settings: SessionSettings };
type PoolParams = Kind & { max: number | SharedSessions; bounds?: PoolBounds };

const DEFAULT_POOL = 10;
const MAINTENANCE_POOL = 4;
const LOCK_TIMEOUT_MS = 2_000;
// A process that is frozen between two statements lets go of its locks before whoever waits for them gives up.
const IDLE_IN_TRANSACTION_MS = 3_000;

export function openDatabase({
  url,
  apiPool,
  workerPool,
  sharesSessions = false,
  apiBounds,
}: DatabaseParams): Database {
  const shared = sharesSessions ? new SharedSessions(1) : null;
  const pool = (params: PoolParams) => openPool(url, params);
  const pipeline = (kind: Kind) => new Pipeline(configOf(url, kind), inForce(kind));
  const requests = { statementTimeoutMs: 5_000, settings: PLANNER };
  const api = pool({ ...requests, name: 'api', max: apiPool ?? shared ?? DEFAULT_POOL, bounds: apiBounds });
  const searches = { statementTimeoutMs: SEARCH_TIMEOUT_MS, settings: PLANNER };
  const searchers = Math.ceil((apiPool ?? (sharesSessions ? 1 : DEFAULT_POOL)) / 2);
  const searching = pool({ ...searches, name: 'searcher', max: searchers, bounds: apiBounds });
  const work = { statementTimeoutMs: 5_000, settings: NO_BITMAPS };
  const workers = pool({ ...work, name: 'workers', max: workerPool ?? shared ?? DEFAULT_POOL });
  const upkeep = { statementTimeoutMs: 30_000, settings: LONG_STATEMENTS };
  const maintenance = pool({ ...upkeep, name: 'maintenance', max: shared ?? MAINTENANCE_POOL });
  const projecting = pool({ ...upkeep, name: PROJECTOR, max: 1 });
  const submitting = pipeline({ ...requests, name: 'submitter' });
  const submittingMore = pipeline({ ...requests, name: 'submitter' });
  const shares = { settings: PLANNER, lockTimeoutMs: SHARED_LOCK_TIMEOUT_MS };
  const claiming = pipeline({ ...shares, name: 'producer', statementTimeoutMs: CLAIM_TIMEOUT_MS });
  const finishing = pipeline({ ...shares, name: 'completer', statementTimeoutMs: 5_000 });
  return {
    url,
    api,
    searching,
    workers,
    maintenance,
    projecting,
    submitting,
    submittingMore,
    claiming,
    finishing,
    sharesSessions,
    async close() {
      await Promise.all([submitting, submittingMore, claiming, finishing].map((each) => each.close()));
      await Promise.all([api.end(), searching.end(), workers.end(), maintenance.end(), projecting.end()]);
    },
  };
}

function configOf(
  url: string,
  { name, statementTimeoutMs, lockTimeoutMs = LOCK_TIMEOUT_MS, settings }: Kind,
): pg.ClientConfig {
  return {
    connectionString: url,
    application_name: `millrace ${name}`,
    types,
    connectionTimeoutMillis: 2_000,
    keepAlive: true,
    statement_timeout: statementTimeoutMs,
    // A connection that died without a word answers nothing: give up a little after the server would have.
    query_timeout: statementTimeoutMs + 1_000,
    lock_timeout: lockTimeoutMs,
    idle_in_transaction_session_timeout: IDLE_IN_TRANSACTION_MS,
    options: `${toOptions(settings)} ${SESSION_BOUNDS}`,
  };
}

/** What each session of a kind must have. */
const inForce = ({ statementTimeoutMs, lockTimeoutMs = LOCK_TIMEOUT_MS, settings }: Kind): SessionSettings => ({
  ...settings,
  statement_timeout: String(statementTimeoutMs),
  lock_timeout: String(lockTimeoutMs),
  idle_in_transaction_session_timeout: String(IDLE_IN_TRANSACTION_MS),
});

/**
 * Lets several pools of a process share a few sessions. Each pool always has one session, so that no kind of work waits for another.
 * The first pool that needs a second session gets one of the extra ones, and returns it after a short idle time.
 */
class SharedSessions {
  static readonly POOL = { min: 1, max: 1, idleTimeoutMillis: 2_000 };
  readonly #pools: pg.Pool[] = [];
  readonly #extra: number;

  constructor(extra: number) {
    this.#extra = extra;
  }

  /** From now on the size of the pool depends on the sessions of the others. */
  admit(pool: pg.Pool): void {
    this.#pools.push(pool);
    Object.defineProperty(pool.options, 'max', { get: () => Math.max(1, pool.totalCount + this.#free()) });
  }

  #free(): number {
    const taken = this.#pools.reduce((sum, pool) => sum + Math.max(0, pool.totalCount - 1), 0);
    return this.#extra - taken;
  }
}

function openPool(url: string, { max, bounds, ...kind }: PoolParams): pg.Pool {
  const expected = inForce(kind);
  const config: pg.PoolConfig = {
    ...configOf(url, kind),
    ...(typeof max === 'number' ? { max, idleTimeoutMillis: 30_000 } : SharedSessions.POOL),
    // Not `verify`: a caller whose patience ends while that runs would never return its connection to the pool.
    onConnect: (client: pg.ClientBase) => verifySession(client, expected),
  };
  const made = bounds === undefined ? new pg.Pool(config) : new BoundedPool(config, bounds);
  if (typeof max !== 'number') max.admit(made);
  made.on('error', () => {}); // An idle connection died. The pool replaces it; the next statement reports if it cannot.
  // A connection may end in the very read that opened it, before anyone who asked for it can listen.
  made.on('connect', (client) => client.on('error', () => {}));
  return made;
}

export type TransactionOptions = {
  /** The work leaves nothing outside of the transaction, so that it may be done again when it lost a race. */
  mayRepeat?: boolean;
  /** Shorter than the statements of the pool may take. */
  statementTimeoutMs?: number;
  /** Shorter than the statements of the pool wait for a lock. */
  lockTimeoutMs?: number;
};

/** Runs `work` in one transaction on a connection of the pool. */
export async function inTransaction<T>(
  pool: pg.Pool,
  work: (client: pg.PoolClient) => Promise<T>,
  { mayRepeat = false, statementTimeoutMs, lockTimeoutMs }: TransactionOptions = {},
): Promise<T> {
  const begin = `BEGIN${bound('statement_timeout', statementTimeoutMs)}${bound('lock_timeout', lockTimeoutMs)}`;
  for (let attempt = 1; ; attempt++) {
    try {
      return await transact(pool, begin, work);
    } catch (error) {
      if (!mayRepeat || !isContended(error) || attempt >= MAX_TRIES) throw translated(error);
      await pauseAfter(attempt);
    }
  }
}

const bound = (setting: string, ms: number | undefined): string =>
  ms === undefined ? '' : `; SET LOCAL ${setting} = ${Math.round(ms)}`;

async function transact<T>(pool: pg.Pool, begin: string, work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
  const client = await pool.connect();
  let broken = false;
  // Without a listener a connection that ends between two statements would end the process.
  const onError = () => {
    broken = true;
  };
  client.on('error', onError);
  try {
    await client.query(begin);
    const result = await work(client);
    await commit(client);
    return result;
  } catch (error) {
    await client.query('ROLLBACK').catch(() => {
      broken = true;
    });
    throw error;
  } finally {
    client.off('error', onError);
    client.release(broken);
  }
}

/** Until here nothing has happened; from here on a lost connection leaves that open. */
async function commit(client: pg.PoolClient): Promise<void> {
  try {
    await client.query('COMMIT');
  } catch (error) {
    throw translated(error, { mayHaveHappened: isUnanswered(error) });
  }
}
