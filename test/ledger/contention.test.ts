import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { isAppError } from '../../src/core/errors.ts';
import { inTransaction, type TransactionOptions } from '../../src/ledger/driver/database.ts';
import {
  isContended,
  isPassing,
  isUnavailable,
  type Queryable,
  run,
  type Statement,
  sqlStateOf,
} from '../../src/ledger/driver/statement.ts';
import { useLedger } from './fixture.ts';

const ledger = useLedger();
let pool: pg.Pool;
beforeAll(() => {
  // Waits for a lock as ours do, only not as long.
  pool = new pg.Pool({ connectionString: ledger.db.url, lock_timeout: 20 });
});
afterAll(() => pool.end());

const TOUCH: Statement = { name: 'touch_org', text: 'UPDATE millrace.orgs SET slug = slug WHERE id = $1' };
const raise = (sqlState: string) => `DO $$BEGIN RAISE SQLSTATE '${sqlState}'; END$$`;
const CONTENDED = ['40001', '40P01', '55P03'];

const errorOf = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => null,
    (error: unknown) => error,
  );

/** What a statement is sent on, and how often it was. */
function counted(db: Queryable, isOurs?: true): Queryable & { sent: number } {
  const made = {
    sent: 0,
    ...(isOurs === undefined ? {} : { isOurs }),
    query: (config: Parameters<Queryable['query']>[0]) => {
      made.sent++;
      return db.query(config);
    },
  };
  return made;
}

function expectRefusal(error: unknown, sqlState: string): void {
  expect(error).toMatchObject({ code: 'UNAVAILABLE', retryAfterMs: 1_000, mayHaveHappened: false });
  expect(isAppError(error)).toBe(true);
  expect([isPassing(error), isContended(error), isUnavailable(error)]).toEqual([true, true, false]);
  expect(sqlStateOf(error)).toBe(sqlState);
}

describe('a statement that another transaction is in the way of', () => {
  it('is tried three times, and then refused as something that passes', async () => {
    const orgId = await ledger.newOrg();
    await inTransaction(ledger.db.maintenance, async (client) => {
      await run(client, TOUCH, [orgId]);
      const db = counted(pool, true);
      expectRefusal(await errorOf(run(db, TOUCH, [orgId])), '55P03');
      expect(db.sent).toBe(3);
    });
    await run(pool, TOUCH, [orgId]);
  });

  it.each(CONTENDED)('is left as it is, %s, inside a transaction that somebody else began', async (sqlState) => {
    const db = counted(pool);
    const error = await errorOf(run(db, { name: `raise_${sqlState}`, text: raise(sqlState) }));
    expect(error).toMatchObject({ code: sqlState });
    expect(db.sent).toBe(1);
  });
});

describe('a transaction that lost a race', () => {
  /** Loses the first `losses` races and then wins. */
  async function race(losses: number, options?: TransactionOptions) {
    let tries = 0;
    const work = async (client: pg.PoolClient) => {
      tries++;
      if (tries <= losses) await client.query(raise(CONTENDED[tries % 3] as string));
      return 'won';
    };
    const outcome = await inTransaction(pool, work, options).catch((error: unknown) => error);
    return { tries, outcome };
  }

  it('is done again where it may be, at most three times', async () => {
    expect(await race(2, { mayRepeat: true })).toEqual({ tries: 3, outcome: 'won' });
    const { tries, outcome } = await race(3, { mayRepeat: true });
    expect(tries).toBe(3);
    expectRefusal(outcome, '40001');
  });

  it('is refused at once where its work may have left something elsewhere', async () => {
    const { tries, outcome } = await race(1);
    expect(tries).toBe(1);
    expectRefusal(outcome, '40P01');
  });

  it('is not done again for an error that stays', async () => {
    let tries = 0;
    const work = async (client: pg.PoolClient) => {
      tries++;
      await client.query('SELECT 1/0');
    };
    expect(await errorOf(inTransaction(pool, work, { mayRepeat: true }))).toMatchObject({ code: '22012' });
    expect(tries).toBe(1);
  });
});

describe('the statements of a transaction', () => {
  it('may be given less time than those of their pool, and the next transaction has the usual', async () => {
    const read = async (client: pg.PoolClient) => (await client.query('SHOW statement_timeout')).rows[0].statement_timeout;
    const one = new pg.Pool({ connectionString: ledger.db.url, statement_timeout: 5_000, max: 1 });
    expect(await inTransaction(one, read, { statementTimeoutMs: 2_000 })).toBe('2s');
    expect(await inTransaction(one, read)).toBe('5s');
    await one.end();
  });
});
