import pg from 'pg';
import { ScramClient } from '../../postgres/scram-client.ts';
import { BoundedPool, type PoolBounds } from './bounded-pool.ts';
import { ROLLUP_WRITER } from './horizon.ts';
import { becomeReader, OrgReads } from './org-reads.ts';
import { Pipeline } from './pipeline.ts';
import { SESSION_BOUNDS, type SessionSettings, toOptions, verifySession } from './session-bounds.ts';
import { isContended, isUnanswered, MAX_TRIES, pauseAfter, translated } from './statement.ts';

/** Separate pools, so that no kind of work takes all connections from another. */
export type Database = {
  readonly url: string;
  readonly api: pg.Pool;
  /** For searches. Their statements have a shorter timeout, and no write waits behind them. Its sessions see nothing without an org. */
  readonly searching: pg.Pool;
  readonly searches: OrgReads;
  /** For other reads of one org. */
  readonly reading: pg.Pool;
  readonly reads: OrgReads;
  readonly workers: pg.Pool;
  readonly maintenance: pg.Pool;
  /** Only for the rollup writer: see `horizon.ts`. */
  readonly projecting: pg.Pool;
  /** The submitter, the producer and the completer keep one each, because they send one statement after another. */
  readonly submitting: Pipeline;
  /** Also for the submitter, if the process can spare a session: two statements then share a flush of the log. */
  readonly submittingMore: Pipeline;
  readonly claiming: Pipeline;
  readonly finishing: Pipeline;
  readonly sharesSessions: boolean;
  close(): Promise<void>;
};

// The hot statements join a few known rows to large tables, and should always use an index. With its own estimates the planner
// sometimes hashes the whole table (measured: 14 of 28 ms of a finish of 500 jobs were one sequential scan). Parallel workers do not
// pay off either: starting them takes longer (measured: 10 to 30 ms of a search) than the statement.
const PLANNER: SessionSettings = {
  plan_cache_mode: 'force_generic_plan',
  enable_hashjoin: 'off',
  enable_mergejoin: 'off',
  enable_seqscan: 'off',
  max_parallel_workers_per_gather: '0',
  jit: 'off',
};

// Rows of claims are short-lived. An index scan marks dead entries and skips them the next time, while a bitmap scan reads all of them
// again (measured: 9 400 entries for 15 claims, in each claim under a cap; after 6 000 claims, 0.9 ms of the database for a completion of
// one job instead of 0.5, because it removes its claim).
export const NO_BITMAPS: SessionSettings = { ...PLANNER, enable_bitmapscan: 'off' };

const LONG_STATEMENTS: SessionSettings = { jit: 'off' };

/** A claim that waits delays every job of its worker. */
export const CLAIM_TIMEOUT_MS = 2_000;
/** A statement for jobs of many owners waits no longer than this for a row that one owner has locked. */
const SHARED_LOCK_TIMEOUT_MS = 50;
/** A search reads a bounded number of jobs, which takes tens of milliseconds. A search that takes this long is blocked. */
const SEARCH_TIMEOUT_MS = 2_000;

const INT8 = 20;

/** Returns bigint as a number, because sequences stay far below 2^53, and leaves the other types to node-postgres. */
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
  /** For a worker process. Each pool has one session and all of them share one more, unless a size is given. */
  sharesSessions?: boolean;
  /** Bounds how many requests wait for a connection of the API. Without it the number is not bounded. */
  apiBounds?: PoolBounds;
};

type Kind = { name: string; statementTimeoutMs: number; lockTimeoutMs?: number; settings: SessionSettings };
type PoolParams = Kind & { max: number | SharedSessions; bounds?: PoolBounds; seesOneOrg?: boolean };

const DEFAULT_POOL = 10;
const MAINTENANCE_POOL = 4;
const LOCK_TIMEOUT_MS = 2_000;
// A process that is frozen between two statements loses its locks before the sessions that wait for them give up.
const IDLE_IN_TRANSACTION_MS = 3_000;

export function openDatabase({ url, apiPool, workerPool, sharesSessions = false, apiBounds }: DatabaseParams): Database {
  const shared = sharesSessions ? new SharedSessions(1) : null;
  const pool = (params: PoolParams) => openPool(url, params);
  const pipeline = (kind: Kind) => new Pipeline(configOf(url, kind), inForce(kind));
  const requests = { statementTimeoutMs: 5_000, settings: PLANNER };
  const api = pool({ ...requests, name: 'api', max: apiPool ?? shared ?? DEFAULT_POOL, bounds: apiBounds });
  // A search stops reading at its limit. A bitmap would first collect all that an index has.
  const searches = { statementTimeoutMs: SEARCH_TIMEOUT_MS, settings: NO_BITMAPS };
  const searchers = Math.ceil((apiPool ?? (sharesSessions ? 1 : DEFAULT_POOL)) / 2);
  const searching = pool({ ...searches, name: 'searcher', max: searchers, bounds: apiBounds, seesOneOrg: true });
  // A process with few sessions reads with those of its searches.
  const reading = shared === null ? pool({ ...requests, name: 'reader', max: searchers, bounds: apiBounds, seesOneOrg: true }) : searching;
  const work = { statementTimeoutMs: 5_000, settings: NO_BITMAPS };
  const workers = pool({ ...work, name: 'workers', max: workerPool ?? shared ?? DEFAULT_POOL });
  const upkeep = { statementTimeoutMs: 30_000, settings: LONG_STATEMENTS };
  const maintenance = pool({ ...upkeep, name: 'maintenance', max: shared ?? MAINTENANCE_POOL });
  const projecting = pool({ ...upkeep, name: ROLLUP_WRITER, max: 1 });
  const submitting = pipeline({ ...requests, name: 'submitter' });
  const submittingMore = pipeline({ ...requests, name: 'submitter' });
  const shares = { settings: NO_BITMAPS, lockTimeoutMs: SHARED_LOCK_TIMEOUT_MS };
  const claiming = pipeline({ ...shares, name: 'producer', statementTimeoutMs: CLAIM_TIMEOUT_MS });
  const finishing = pipeline({ ...shares, name: 'completer', statementTimeoutMs: 5_000 });
  return {
    url,
    api,
    searching,
    searches: new OrgReads(searching, api),
    reading,
    reads: new OrgReads(reading, api),
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
      await Promise.all([...new Set([api, searching, reading, workers, maintenance, projecting])].map((each) => each.end()));
    },
  };
}

function configOf(url: string, { name, statementTimeoutMs, lockTimeoutMs = LOCK_TIMEOUT_MS, settings }: Kind): pg.ClientConfig {
  return {
    connectionString: url,
    application_name: `millrace ${name}`,
    types,
    connectionTimeoutMillis: 2_000,
    keepAlive: true,
    statement_timeout: statementTimeoutMs,
    // A connection that was lost silently returns nothing. The client gives up shortly after the server would have.
    query_timeout: statementTimeoutMs + 1_000,
    lock_timeout: lockTimeoutMs,
    idle_in_transaction_session_timeout: IDLE_IN_TRANSACTION_MS,
    options: `${toOptions(settings)} ${SESSION_BOUNDS}`,
  };
}

/** The settings that each session of a kind must have. */
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

function openPool(url: string, { max, bounds, seesOneOrg = false, ...kind }: PoolParams): pg.Pool {
  const expected = inForce(kind);
  const config: pg.PoolConfig = {
    ...configOf(url, kind),
    ...(typeof max === 'number' ? { max, idleTimeoutMillis: 30_000 } : SharedSessions.POOL),
    // Not `verify`: a caller that gives up while it runs would never return its connection to the pool.
    Client: ScramClient,
    onConnect: async (client: pg.ClientBase) => {
      await verifySession(client, expected);
      if (seesOneOrg) await becomeReader(client);
    },
  };
  const made = bounds === undefined ? new pg.Pool(config) : new BoundedPool(config, bounds);
  if (typeof max !== 'number') max.admit(made);
  made.on('error', () => {}); // An idle connection ended. The pool replaces it, or the next statement fails.
  // A connection may end in the same read that opened it, before its caller can add a listener.
  made.on('connect', (client) => client.on('error', () => {}));
  return made;
}

export type TransactionOptions = {
  /** The work has no effect outside the transaction, so it may be repeated after a lost race. */
  mayRepeat?: boolean;
  /** A shorter statement timeout than that of the pool. */
  statementTimeoutMs?: number;
  /** A shorter lock timeout than that of the pool. */
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

const bound = (setting: string, ms: number | undefined): string => (ms === undefined ? '' : `; SET LOCAL ${setting} = ${Math.round(ms)}`);

async function transact<T>(pool: pg.Pool, begin: string, work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
  const client = await pool.connect();
  let broken = false;
  // Without a listener, a connection that ends between two statements would end the process.
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

/** Before the COMMIT nothing has happened. If the connection is lost during it, the outcome is unknown. */
async function commit(client: pg.PoolClient): Promise<void> {
  try {
    await client.query('COMMIT');
  } catch (error) {
    throw translated(error, { mayHaveHappened: isUnanswered(error) });
  }
}
