/** A fair queue while a transaction that is still open has submitted to it. */
import { describe, expect, it } from 'vitest';
import type { Millrace } from '../../src/index.ts';
import { useBench } from '../library/fixture.ts';

const bench = useBench();
const FAIR = 'q:fair';

async function openFair(): Promise<Millrace> {
  const millrace = await bench.open({ org: await bench.ledger.newOrg() });
  await millrace.queues.configure(FAIR, { order: 'fair' });
  return millrace;
}

async function orderKeyOf(jobId: string | null): Promise<number> {
  const { rows } = await bench.ledger.db.api.query('SELECT order_key FROM millrace.jobs WHERE id = $1', [jobId]);
  return rows[0].order_key;
}

const job = (more: object = {}) => ({ type: 'fair', queue: FAIR, payload: {}, ...more });

describe('a fair queue that an open transaction of a user has submitted to', () => {
  it('takes jobs of the same org at once, in an order without ties', async () => {
    const millrace = await openFair();
    const client = await bench.connect();
    await client.query('BEGIN');
    const first = await millrace.submit(job(), { client });
    const second = await millrace.submit(job());
    const { results } = await millrace.submitMany([job(), job({ delay: '1h' })], { client });
    const last = await millrace.submit(job());
    await client.query('COMMIT');
    const keys = await Promise.all([first, second, ...results, last].map(({ jobId }) => orderKeyOf(jobId)));
    const [base = 0] = keys;
    expect(keys).toEqual([0, 1, 2, 3, 4].map((n) => base + n));
  });

  it('keeps a gap and nothing else of one that rolls back', async () => {
    const millrace = await openFair();
    const client = await bench.connect();
    const before = await orderKeyOf((await millrace.submit(job())).jobId);
    await client.query('BEGIN');
    await millrace.submit(job(), { client });
    await client.query('ROLLBACK');
    expect(await orderKeyOf((await millrace.submit(job())).jobId)).toBe(before + 2);
    expect((await millrace.search()).totalCount).toBe(2);
  });
});
