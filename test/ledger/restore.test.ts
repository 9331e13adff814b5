import { afterAll, beforeAll, expect, test } from 'vitest';
import { wholeOrg } from '../../src/core/owner.ts';
import { recogniseRestore } from '../../src/ledger/driver/cluster.ts';
import { checkSchema } from '../../src/ledger/driver/migrate.ts';
import { readFeed } from '../../src/ledger/history/read-feed.ts';
import { countJobs } from '../../src/ledger/reads/count-jobs.ts';
import { searchJobs } from '../../src/ledger/search/search-jobs.ts';
import { until } from '../until.ts';
import { type TestJob, type TestLedger, useLedger } from './fixture.ts';
import { type Restored, restoreInto } from './restored-ledger.ts';
import { TestWebhooks } from './webhook-fixture.ts';

const source = useLedger();
const webhooks = new TestWebhooks(source);
let restored: Restored;
let orgId: string;
let webhookId: string;
let told: TestJob;
let untold: TestJob;

const offsetOf = async (ledger: TestLedger): Promise<number> =>
  (await ledger.db.api.query('SELECT millrace.txid_offset() AS txid_offset')).rows[0].txid_offset;

beforeAll(async () => {
  // Numbers far above those of a fresh cluster.
  const client = await source.db.maintenance.connect();
  for (let burnt = 0; burnt < 3_000; burnt++) await client.query('SELECT pg_current_xact_id()');
  client.release();
  orgId = await source.newOrg();
  webhookId = await webhooks.register(orgId, { events: ['job.succeeded'] });
  told = await source.putJob('completed', { orgId });
  await webhooks.dispatch();
  await source.project();
  untold = await source.putJob('completed', { orgId });
  restored = await restoreInto(source);
}, 120_000);
afterAll(() => restored?.close());

test('a restored ledger is recognised, also by what was written before; every event is delivered once and counted once', async () => {
  const { ledger } = restored;
  const there = new TestWebhooks(ledger);
  // By a process that was running while the ledger was restored.
  const early = await ledger.putJob('completed', { orgId });
  expect(await recogniseRestore(ledger.db.maintenance)).toBe(true);
  expect(await recogniseRestore(ledger.db.maintenance)).toBe(false);
  const late = await ledger.putJob('completed', { orgId });
  await there.dispatch();
  await ledger.project();
  const jobs = (await there.deliveries({ webhookId })).map(({ job_id }) => job_id);
  expect(jobs).toEqual([told.id, untold.id, early.id, late.id]);
  const counts = await countJobs(ledger.db.api, orgId, { sinceMs: 3_600_000 });
  expect(counts.states.completed).toBe(4);
  const sums = `SELECT sum(completed)::int4 AS completed FROM millrace.rollups WHERE org_id = $1 AND width = 3600`;
  expect((await ledger.db.api.query(sums, [orgId])).rows[0].completed).toBe(4);
  const changed = await searchJobs(ledger.db.api, wholeOrg(orgId), {}, { order: 'UPDATED_DESC', limit: 2 });
  expect(changed.jobs.map(({ id }) => id)).toEqual([late.id, early.id]);
});

test('a follower that kept its place before the restore gets every later event once', async () => {
  const { ledger } = restored;
  const { rows } = await source.db.api.query(`SELECT max(txid)::text AS txid FROM millrace.records`);
  const after = { txid: Number(rows[0].txid) + 1, recordId: 0, jobSeq: 0, n: 0 };
  const job = await ledger.putJob('completed', { orgId });
  const changes = async () => {
    const { events } = await readFeed(ledger.db.api, [orgId], { after, limit: 1_000 });
    return events.filter(({ jobId }) => jobId === job.id).map(({ to }) => to);
  };
  // Autovacuum also has transactions, and holds the feed back for a moment.
  await until('the feed shows the end', async () => (await changes()).includes('completed'));
  expect(await changes()).toEqual(['scheduled', 'running', 'completed']);
});

test('a process that opens the ledger recognises the restore before it writes', async () => {
  const { ledger } = restored;
  const before = await offsetOf(ledger);
  // As after another restore: all rows were written by another transaction than they say.
  await ledger.db.maintenance.query('UPDATE millrace.records SET actor = actor; UPDATE millrace.cluster SET since = now()');
  await checkSchema(ledger.db.maintenance);
  expect(await offsetOf(ledger)).toBeGreaterThan(before);
});

test('a tool that rewrites tables is not taken for a restore', async () => {
  await source.project();
  await source.db.maintenance.query('UPDATE millrace.cluster SET since = now()');
  expect(await recogniseRestore(source.db.maintenance)).toBe(false);
  expect(await offsetOf(source)).toBe(0);
});

test('a database that was copied with its files, or never moved, is left as it is', async () => {
  expect(await recogniseRestore(source.db.maintenance)).toBe(false);
  expect(await offsetOf(source)).toBe(0);
});
