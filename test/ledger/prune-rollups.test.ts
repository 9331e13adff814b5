import { expect, test } from 'vitest';
import { pruneRollups } from '../../src/ledger/history/rollups.ts';
import { useLedger } from './fixture.ts';

const ledger = useLedger();
const EVERYTHING = 1_000;

const sql = async (text: string, values: unknown[] = []) => (await ledger.db.maintenance.query(text, values)).rows;

const AGES = [
  { width: 1, kept: '110 minutes', gone: '130 minutes' },
  { width: 60, kept: '7 days', gone: '9 days' },
  { width: 3_600, kept: '91 days', gone: '93 days' },
  { width: 86_400, kept: '10 years', gone: null },
] as const;

const TABLES = {
  rollups: `INSERT INTO millrace.rollups SELECT $1, $2, millrace.clock() - $3::interval, 'mail', 2, 1, 0, 0, 0, 0, 0`,
  rollup_latencies: `INSERT INTO millrace.rollup_latencies SELECT $1, $2, millrace.clock() - $3::interval, 'queue', 1, 1, 1`,
} as const;

test.each(Object.entries(TABLES))('%s are kept for as long as their width is read', async (table, insert) => {
  const orgId = await ledger.newOrg();
  for (const { width, kept, gone } of AGES) {
    for (const age of [kept, gone]) if (age !== null) await sql(insert, [orgId, width, age]);
  }
  expect(await pruneRollups(ledger.db.maintenance, EVERYTHING)).toBe(3);
  const left = await sql(`SELECT width FROM millrace.${table} WHERE org_id = $1 ORDER BY width`, [orgId]);
  expect(left.map(({ width }) => width)).toEqual([1, 60, 3_600, 86_400]);
  const youngest = await sql(
    `SELECT FROM millrace.${table} WHERE org_id = $1 AND width = 1 AND started_at > millrace.clock() - interval '2 hours'`,
    [orgId],
  );
  expect(youngest).toHaveLength(1);
  expect(await pruneRollups(ledger.db.maintenance, EVERYTHING)).toBe(0);
});

test('no more than asked for go at once', async () => {
  const orgId = await ledger.newOrg();
  for (let day = 10; day < 15; day++) await sql(TABLES.rollups, [orgId, 60, `${day} days`]);
  expect(await pruneRollups(ledger.db.maintenance, 2)).toBe(2);
  expect(await pruneRollups(ledger.db.maintenance, 2)).toBe(2);
  expect(await pruneRollups(ledger.db.maintenance, 2)).toBe(1);
});

test('spans go when the oldest job is two days younger', async () => {
  const job = await ledger.submitOne();
  const span = `INSERT INTO millrace.seq_spans (org_id, width, started_at, changed_seq) SELECT $1, 60, millrace.clock() - $2::interval, $3::int8`;
  await sql(span, [job.orgId, '3 days', 1]);
  await sql(span, [job.orgId, '1 day', 2]);
  const left = async () =>
    (await sql('SELECT changed_seq FROM millrace.seq_spans WHERE org_id = $1', [job.orgId])).map(({ changed_seq }) => Number(changed_seq));
  await sql(`UPDATE millrace.jobs SET created_at = created_at - interval '2 days' WHERE id = $1`, [job.id]);
  expect(await pruneRollups(ledger.db.maintenance, EVERYTHING)).toBe(0);
  await sql(`UPDATE millrace.jobs SET created_at = created_at + interval '2 days' WHERE id = $1`, [job.id]);
  expect(await pruneRollups(ledger.db.maintenance, EVERYTHING)).toBe(1);
  expect(await left()).toEqual([2]);
});

test('the jobs of a tag are forgotten once no job up to the last one is left', async () => {
  const job = await ledger.submitOne();
  await sql(`INSERT INTO millrace.live_totals VALUES ($1, 'scheduled', 1) ON CONFLICT DO NOTHING`, [job.orgId]);
  const tagged = 'INSERT INTO millrace.tagged_jobs VALUES ($1, $2, $4, ARRAY[$3::int8, $4::int8])';
  await sql(tagged, [job.orgId, 'team=gone', job.seq - 2, job.seq - 1]);
  await sql(tagged, [job.orgId, 'team=half', job.seq - 1, job.seq]);
  expect(await pruneRollups(ledger.db.maintenance, EVERYTHING)).toBe(1);
  const tags = async () => (await sql('SELECT tag FROM millrace.tagged_jobs WHERE org_id = $1', [job.orgId])).map((row) => row.tag);
  expect(await tags()).toEqual(['team=half']);
  await sql('DELETE FROM millrace.jobs WHERE org_id = $1', [job.orgId]);
  await ledger.submitOne();
  expect(await pruneRollups(ledger.db.maintenance, EVERYTHING)).toBe(1);
  expect(await tags()).toEqual([]);
});
