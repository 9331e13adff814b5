/** Batches that are too long for one statement. */
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { useBench } from './fixture.ts';

const bench = useBench();
const LARGE = 'x'.repeat(900_000);
const MAX_LENGTH = 8 * 1_048_576;

const jobs = (more: (n: number) => object = () => ({})) =>
  Array.from({ length: 12 }, (_, n) => ({ type: 'large', payload: { n, LARGE }, ...more(n) }));

// Only the database sees what a statement carries, and in which transaction.
beforeAll(async () => {
  await bench.ledger.db.maintenance.query(`
    CREATE TABLE public.statement_sizes (length int8, transaction text);
    CREATE FUNCTION public.note_size() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN
      INSERT INTO public.statement_sizes SELECT sum(octet_length(payload::text)), pg_current_xact_id()::text FROM written HAVING count(*) > 0;
      RETURN NULL;
    END$$;
    CREATE TRIGGER note_payloads AFTER INSERT ON millrace.jobs REFERENCING NEW TABLE AS written
      FOR EACH STATEMENT EXECUTE FUNCTION public.note_size()`);
});

beforeEach(() => bench.ledger.db.maintenance.query('TRUNCATE public.statement_sizes'));

async function open() {
  const millrace = await bench.open({ org: await bench.ledger.newOrg() });
  return { millrace, count: async () => (await millrace.search()).totalCount };
}

async function sent(): Promise<{ statements: number; longest: number; transactions: number }> {
  const { rows } = await bench.ledger.db.maintenance.query(`
    SELECT count(*)::int4 AS statements, max(length)::int4 AS longest, count(DISTINCT transaction)::int4 AS transactions
    FROM public.statement_sizes`);
  return rows[0];
}

describe('submitMany of more than a statement carries', () => {
  it.each([
    ['without keys', () => ({})],
    ['with keys', (n: number) => ({ idempotencyKey: `k-${n}` })],
  ])('%s sends several statements in one transaction [GA-1.37]', async (_, more) => {
    const { millrace, count } = await open();
    const { results } = await millrace.submitMany(jobs(more));
    expect(await count()).toBe(12);
    expect(results.map(({ status }) => status)).toEqual(Array(12).fill('ACCEPTED'));
    const { statements, longest, transactions } = await sent();
    expect([statements, transactions]).toEqual([2, 1]);
    expect(longest).toBeLessThanOrEqual(MAX_LENGTH);
  });

  it('stays all or none: the last key refuses what the first statement wrote [GA-1.37]', async () => {
    const { millrace, count } = await open();
    await millrace.submit({ type: 'large', payload: {}, idempotencyKey: 'k-11' });
    const answer = await millrace.submitMany(jobs((n) => ({ idempotencyKey: `k-${n}` })));
    expect(answer).toMatchObject({ accepted: 0, rejected: 12 });
    expect(await count()).toBe(1);
  });

  it('is split the same way when it is not atomic', async () => {
    const { millrace, count } = await open();
    const answer = await millrace.submitMany(
      jobs((n) => ({ idempotencyKey: `k-${n % 11}` })),
      { atomic: false },
    );
    expect(answer).toMatchObject({ accepted: 11, rejected: 1 });
    expect(answer.results[11]).toMatchObject({ status: 'REJECTED', error: { code: 'DUPLICATE' } });
    expect(await count()).toBe(11);
    expect((await sent()).longest).toBeLessThanOrEqual(MAX_LENGTH);
  });

  it('is cut in the transaction of the caller, too', async () => {
    const { millrace, count } = await open();
    const client = await bench.connect();
    await client.query('BEGIN');
    await millrace.submitMany(jobs(), { client });
    await client.query('ROLLBACK');
    expect(await count()).toBe(0);
    await client.query('BEGIN');
    await millrace.submitMany(jobs(), { client });
    await client.query('COMMIT');
    expect(await count()).toBe(12);
    expect((await sent()).longest).toBeLessThanOrEqual(MAX_LENGTH);
  });
});

describe('a client that is not inside a transaction', () => {
  it('is refused, and so is a pool', async () => {
    const { millrace, count } = await open();
    const client = await bench.connect();
    const job = { type: 'large', payload: {} };
    const refusal = { code: 'INVALID_REQUEST', message: expect.stringContaining('BEGIN') };
    for (const given of [client, bench.ledger.db.maintenance as unknown as typeof client]) {
      await expect(millrace.submit(job, { client: given })).rejects.toMatchObject(refusal);
      await expect(millrace.submitMany([job], { client: given })).rejects.toMatchObject(refusal);
    }
    expect(await count()).toBe(0);
    // The BEGIN is on its way.
    void client.query('BEGIN');
    await millrace.submit(job, { client });
    await client.query('COMMIT');
    expect(await count()).toBe(1);
    await expect(millrace.submit(job, { client })).rejects.toMatchObject(refusal);
  });
});
