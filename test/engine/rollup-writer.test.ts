import { randomUUID } from 'node:crypto';
import { expect, onTestFinished, test } from 'vitest';
import { EventHub } from '../../src/engine/events.ts';
import { RollupWriter } from '../../src/engine/upkeep/rollup-writer.ts';
import { countJobs } from '../../src/ledger/reads/count-jobs.ts';
import { useLedger } from '../ledger/fixture.ts';
import { whileHolding } from '../ledger/while-holding.ts';
import { until } from '../until.ts';

const ledger = useLedger();

async function newWriter() {
  const events = new EventHub();
  const made = new RollupWriter({ database: ledger.db, events });
  onTestFinished(() => made.stop());
  return { writer: made, events };
}

async function submittedOf(orgId: string): Promise<number> {
  const text = `SELECT coalesce(sum(submitted), 0)::int4 AS sum FROM millrace.rollups WHERE org_id = $1 AND width = 86400`;
  return (await ledger.db.api.query(text, [orgId])).rows[0].sum;
}

async function submit(orgId: string, count: number): Promise<void> {
  for (let n = 0; n < count; n++) await ledger.submitOne({ orgId });
}

/** History of jobs that one transaction submitted. */
async function record(orgId: string, { records, jobs }: { records: number; jobs: number }): Promise<void> {
  const text = `INSERT INTO millrace.records (id, at, org_id, from_state, to_state, priority, job_type, reason, seqs)
    SELECT nextval('millrace.record_id'), now(), $1, 'pending', 'scheduled', 2, 'large', 'submitted',
      ARRAY(SELECT nextval('millrace.job_seq') FROM generate_series(1, $3::int4) WHERE r = r)
    FROM generate_series(1, $2::int4) r`;
  await ledger.db.maintenance.query(text, [orgId, records, jobs]);
}

/** Transactions of other databases on the server hold the horizon back, too. */
async function untilOver(): Promise<void> {
  const { rows } = await ledger.db.api.query('SELECT pg_current_xact_id()::text AS txid');
  const text = 'SELECT pg_snapshot_xmin(pg_current_snapshot()) > $1::xid8 AS is_over';
  await until(
    'every transaction on the server has moved past the record',
    async () => (await ledger.db.api.query(text, [rows[0].txid])).rows[0].is_over,
  );
}

test('counts by itself what happens, and not after it was stopped', async () => {
  const { writer: counting } = await newWriter();
  const orgId = await ledger.newOrg();
  counting.start();
  await submit(orgId, 3);
  await until('three submissions have been counted', () => submittedOf(orgId), 3);
  await counting.stop();
  await submit(orgId, 1);
  await untilOver();
  expect(await submittedOf(orgId)).toBe(3);
  counting.start();
  await until('the fourth submission has been counted', () => submittedOf(orgId), 4);
});

test('goes on at once while there is more than a round of it, then rests', async () => {
  const { writer: counting } = await newWriter();
  const orgId = await ledger.newOrg();
  await record(orgId, { records: 30, jobs: 1_000 });
  await untilOver();
  let rounds = 1;
  while ((await counting.round()) === 0) rounds++;
  expect(rounds).toBeGreaterThan(1);
  expect(await submittedOf(orgId)).toBe(30_000);
  expect(await counting.round()).toBeGreaterThan(0);
  expect(await submittedOf(orgId)).toBe(30_000);
});

test('adds up a large transaction in parts, and counts read in between are right', async () => {
  const { writer: counting } = await newWriter();
  const orgId = await ledger.newOrg();
  await record(orgId, { records: 50, jobs: 1_000 });
  await untilOver();
  const sums: number[] = [];
  for (let delayMs = 0; delayMs === 0; ) {
    delayMs = await counting.round();
    sums.push(await submittedOf(orgId));
    const counted = await countJobs(ledger.db.api, orgId, { sinceMs: 3_600_000 });
    expect(Math.round(counted.submissionRate * 3_600)).toBe(50_000);
  }
  expect(sums.slice(0, 2)).toEqual([20_000, 40_000]);
  expect(sums.at(-1)).toBe(50_000);
});

test('sets aside a record that cannot be added up, reports it, and counts the ones behind it', async () => {
  const { writer: counting, events } = await newWriter();
  const orgId = await ledger.newOrg();
  const reported: unknown[] = [];
  events.on('setAside', (facts) => reported.push(facts));
  await submit(orgId, 2);
  // No sum can hold the type of this one: the key of its row is too long for an index.
  const type = Array.from({ length: 400 }, () => randomUUID()).join('');
  const text = `INSERT INTO millrace.records (id, at, org_id, from_state, to_state, priority, job_type, reason, seqs, ns)
    VALUES (nextval('millrace.record_id'), now(), $1, 'running', 'completed', 2, $2, 'succeeded', '{1}', '{3}')`;
  await ledger.db.maintenance.query(text, [orgId, type]);
  await submit(orgId, 3);
  await untilOver();
  while ((await counting.round()) === 0);
  expect(await submittedOf(orgId)).toBe(5);
  expect(reported).toMatchObject([{ projection: 'rollups', webhookId: null }]);
  const { rows } = await ledger.db.api.query(`SELECT projection, error FROM millrace.set_aside`);
  expect(rows).toMatchObject([{ projection: 'rollups', error: expect.stringContaining('index row') }]);
});

test('skips its round while another rollup writer is at work', async () => {
  const { writer: counting } = await newWriter();
  const orgId = await ledger.newOrg();
  await submit(orgId, 2);
  await untilOver();
  const text = `SELECT FROM millrace.projections WHERE name = 'rollups' FOR UPDATE`;
  await whileHolding({ url: ledger.db.url, text }, async () => {
    expect(await counting.round()).toBeGreaterThan(0);
    expect(await submittedOf(orgId)).toBe(0);
  });
  while ((await counting.round()) === 0);
  expect(await submittedOf(orgId)).toBe(2);
});

test('survives a round that fails, and says so', async () => {
  const { writer: counting, events } = await newWriter();
  const orgId = await ledger.newOrg();
  const failures: string[] = [];
  events.on('error', ({ where }) => failures.push(where));
  await ledger.db.maintenance.query('ALTER TABLE millrace.rollups RENAME TO rollups_away');
  counting.start();
  await until(
    'the rollup writer has reported its failure',
    () => failures,
    (seen) => seen.includes('rollup writer'),
  );
  await ledger.db.maintenance.query('ALTER TABLE millrace.rollups_away RENAME TO rollups');
  await submit(orgId, 2);
  await until('both submissions have been counted', () => submittedOf(orgId), 2);
});
