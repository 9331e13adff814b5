import { expect, test } from 'vitest';
import { inTransaction } from '../../src/ledger/driver/database.ts';
import { dropOldPartitions, ensurePartitions } from '../../src/ledger/history/record-partitions.ts';
import { until } from '../until.ts';
import { dropPartitions } from './drop-partitions.ts';
import { useLedger } from './fixture.ts';
import { moveToMidday } from './set-clock.ts';

const ledger = useLedger();
const DAY = 86_400_000;

async function partitions(): Promise<string[]> {
  const { rows } = await ledger.db.api.query(
    `SELECT inhrelid::regclass::text AS name FROM pg_inherits WHERE inhparent = 'millrace.records'::regclass ORDER BY 1`,
  );
  return rows.map((row) => row.name.replace('millrace.', '')).filter((name) => name !== 'records_default');
}

const countIn = async (table: string): Promise<number> =>
  (await ledger.db.api.query(`SELECT count(*)::int4 AS count FROM millrace.${table}`)).rows[0].count;

async function today(): Promise<string> {
  const { rows } = await ledger.db.api.query(`SELECT to_char(millrace.clock() AT TIME ZONE 'UTC', 'YYYYMMDD') AS day`);
  return `records_${rows[0].day}`;
}

test('days ahead are made once, by however many processes ask, and events that came before are moved', async () => {
  await moveToMidday(ledger);
  await dropPartitions(ledger);
  const job = await ledger.putJob('completed', { policy: { retentionMs: DAY } });
  expect(await countIn('records_default')).toBe(3);
  const ensured = await Promise.all([1, 2, 3].map(() => ensurePartitions(ledger.db.maintenance, { daysAhead: 7 })));
  const made = ensured.flatMap((each) => each.made);
  expect([made.length, new Set(made).size]).toEqual([8, 8]);
  expect(await partitions()).toHaveLength(8);
  expect((await partitions())[0]).toBe(await today());
  expect(await countIn('records_default')).toBe(0);
  expect(await ledger.eventsOf(job)).toHaveLength(3);
  await ledger.putJob('completed', { policy: { retentionMs: DAY } });
  expect(await countIn(await today())).toBe(6);
  expect(await ensurePartitions(ledger.db.maintenance)).toEqual({ made: [], isComplete: true });
});

test('a day is bounded by midnight in UTC', async () => {
  const day = await today();
  const bound = await inTransaction(ledger.db.api, async (client) => {
    await client.query(`SET LOCAL timezone = 'UTC'`);
    const { rows } = await client.query('SELECT pg_get_expr(relpartbound, oid) AS bound FROM pg_class WHERE relname = $1', [day]);
    return rows[0].bound;
  });
  expect(bound).toMatch(/FROM \('[-\d]+ 00:00:00\+00'\) TO \('[-\d]+ 00:00:00\+00'\)/);
});

test('a day is dropped only when no job from before its end is left', async () => {
  const first = await today();
  await ledger.moveClock(3 * DAY);
  expect(await dropOldPartitions(ledger.db.maintenance)).toEqual([]);
  expect(await partitions()).toContain(first);
  expect((await ledger.prune(100)).jobs).toBe(2);
  const young = await ledger.submitOne();
  expect(await dropOldPartitions(ledger.db.maintenance)).toHaveLength(3);
  expect(await partitions()).not.toContain(first);
  expect(await partitions()).toContain(await today());
  expect(await ledger.eventsOf(young)).toHaveLength(1);
});

test('a day that is in use is left for the next time', async () => {
  const day = await today();
  await ledger.db.api.query('DELETE FROM millrace.jobs');
  await ledger.moveClock(2 * DAY);
  const reader = await ledger.db.api.connect();
  await reader.query('BEGIN');
  await reader.query(`SELECT count(*) FROM millrace.${day}`);
  expect(await dropOldPartitions(ledger.db.maintenance)).toEqual([]);
  await reader.query('COMMIT');
  reader.release();
  // Autovacuum may have the table for a moment.
  const dropped: string[] = [];
  await until('the day has been dropped', async () => {
    dropped.push(...(await dropOldPartitions(ledger.db.maintenance)));
    return dropped.includes(day);
  });
});
