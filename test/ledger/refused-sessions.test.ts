/** What becomes of a pool whose new sessions are refused: no caller waits in vain, no session stays, and it works again later. */
import type pg from 'pg';
import { describe, expect, it, onTestFinished } from 'vitest';
import { type Database, type DatabaseParams, openDatabase } from '../../src/ledger/driver/database.ts';
import { until } from '../until.ts';
import { useLedger } from './fixture.ts';
import { makePatient, PATIENCE_MS } from './patient.ts';
import { openPooler, type PoolerHabits } from './pooler.ts';

const ledger = useLedger();

const POOLS = ['api', 'searching', 'reading', 'workers', 'maintenance', 'projecting'] as const;

const SIZES: Record<string, Partial<DatabaseParams>> = {
  'pools of fixed sizes': { apiPool: 4, workerPool: 4 },
  'bounded pools': { apiPool: 4, apiBounds: { maxWaiting: 4, patienceMs: PATIENCE_MS, longestWaitMs: PATIENCE_MS } },
  'pools that share sessions': { sharesSessions: true },
};

const REFUSALS: Record<string, { habits: PoolerHabits; error: object }> = {
  'made-up process ids': { habits: { makesUpIds: true }, error: { code: 'DATABASE_POOLED' } },
  'dropped settings': { habits: { dropsSettings: true }, error: { code: 'DATABASE_POOLED' } },
  'a connection that ends during the check': {
    habits: { hangsUp: true },
    error: { message: expect.stringMatching(/Connection terminated|ECONNRESET/) },
  },
};

const CASES = Object.keys(SIZES).flatMap((sizes) => Object.keys(REFUSALS).map((refusal) => [sizes, refusal] as const));

async function processes(): Promise<Set<number>> {
  const { rows } = await ledger.db.maintenance.query<{ pid: number }>(
    'SELECT pid FROM pg_stat_activity WHERE datname = current_database()',
  );
  return new Set(rows.map(({ pid }) => pid));
}

const countsOf = ({ totalCount, idleCount, waitingCount }: pg.Pool) => ({ totalCount, idleCount, waitingCount });

/** Three callers for each session that the pools may have: most of them wait until another caller was refused. */
const askAll = (database: Database): Promise<unknown>[] =>
  POOLS.flatMap((name) => {
    const pool = database[name];
    const callers = Math.min(pool.options.max, 4) * 3;
    return Array.from({ length: callers }, () => pool.query('SELECT 1'));
  });

describe.each(CASES)('%s behind %s', (sizes, refusal) => {
  it('refuse every caller, keep no session, and serve all callers once their sessions are good', async () => {
    const { habits, error } = REFUSALS[refusal] as (typeof REFUSALS)[string];
    const present: PoolerHabits = { ...habits };
    const before = await processes();
    const database = openDatabase({ url: await openPooler(ledger.db.url, present), ...SIZES[sizes] });
    makePatient(database);
    onTestFinished(() => database.close());

    for (const outcome of await Promise.allSettled(askAll(database))) expect(outcome).toMatchObject({ status: 'rejected', reason: error });
    for (const name of POOLS) expect([name, countsOf(database[name])]).toEqual([name, { totalCount: 0, idleCount: 0, waitingCount: 0 }]);
    await until('the new server processes have ended', async () => [...(await processes())].every((pid) => before.has(pid)));

    Object.assign(present, { makesUpIds: false, dropsSettings: false, hangsUp: false });
    await Promise.all(askAll(database));
    for (const name of POOLS) {
      const { totalCount, idleCount, waitingCount } = database[name];
      expect([name, totalCount - idleCount, waitingCount]).toEqual([name, 0, 0]);
    }
  });
});

it('a caller who gives up while a new session is checked leaves it to the next caller', async () => {
  const habits: PoolerHabits = {};
  const database = openDatabase({ url: await openPooler(ledger.db.url, habits) });
  onTestFinished(() => database.close());
  const pool = database.projecting;
  // Longer than a busy machine stops a process: a caller who gave up before the session is opened leaves none.
  pool.options.connectionTimeoutMillis = 6_000;
  const only = await pool.connect();
  const waiting = pool.connect();
  const checked = Promise.withResolvers<void>();
  habits.holdsBack = checked.promise;
  only.release(true); // The pool opens another session for the caller who waits.
  await expect(waiting).rejects.toThrow('timeout exceeded when trying to connect');
  checked.resolve();
  await until('the session is idle', () => pool.idleCount, 1);
  expect(countsOf(pool)).toEqual({ totalCount: 1, idleCount: 1, waitingCount: 0 });
  expect((await pool.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }]);
});
