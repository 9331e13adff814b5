import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { wholeOrg } from '../../src/core/owner.ts';
import { submitJobs } from '../../src/ledger/jobs/submit-jobs.ts';
import { searchJobs } from '../../src/ledger/search/search-jobs.ts';
import { noteSettled } from '../../src/ledger/search/search-settling.ts';
import { dispatchEvents } from '../../src/ledger/webhooks/dispatch-events.ts';
import { useLedger } from './fixture.ts';
import { TestWebhooks } from './webhook-fixture.ts';

const ledger = useLedger();
const webhooks = new TestWebhooks(ledger);
const role = `searcher_${process.pid}_${Date.now()}`;
let searching: pg.Pool;

/** A pool of a role that may read the ledger and is not told about sessions of other roles. */
beforeAll(async () => {
  await ledger.db.maintenance.query(`CREATE ROLE ${role} LOGIN PASSWORD 'secret';
    GRANT USAGE ON SCHEMA millrace TO ${role}; GRANT SELECT ON ALL TABLES IN SCHEMA millrace TO ${role}`);
  const url = new URL(ledger.db.url);
  url.username = role;
  url.password = 'secret';
  const types = ledger.db.api.options.types;
  searching = new pg.Pool({ connectionString: url.href, types, options: '-c enable_seqscan=off' });
});
afterAll(async () => {
  await searching?.end();
  await ledger.db.maintenance.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`);
});

const search = (orgId: string, cursor: string | null = null) =>
  searchJobs(searching, wholeOrg(orgId), {}, { order: 'CREATED_ASC', limit: 3, cursor });

test('a search in ascending order does not pass over a job that another role commits late [GA-2.43]', async () => {
  const orgId = await ledger.newOrg();
  const slow = await ledger.db.workers.connect();
  try {
    await slow.query('BEGIN; SET LOCAL idle_in_transaction_session_timeout = 0');
    const late = await ledger.toWrite(orgId);
    await submitJobs(slow, [late]);
    const early = [];
    for (let n = 0; n < 5; n++) early.push((await ledger.submitOne({ orgId })).id);
    await ledger.moveClock(60_000);
    const first = await search(orgId);
    expect(first).toMatchObject({ jobs: [], hasMore: true });
    await slow.query('COMMIT');
    const second = await search(orgId, first.nextCursor);
    expect(second.jobs.map((job) => job.id)).toEqual([late.id, ...early.slice(0, 2)]);
  } finally {
    slow.release(true);
  }
});

test('a transaction of another role that stays open hides no job from before it', async () => {
  const orgId = await ledger.newOrg();
  const old: string[] = [];
  for (let n = 0; n < 5; n++) old.push((await ledger.submitOne({ orgId })).id);
  // As two rounds of the rollup writer do.
  await noteSettled(ledger.db.maintenance);
  await noteSettled(ledger.db.maintenance);
  const slow = await ledger.db.workers.connect();
  try {
    await slow.query('BEGIN; SET LOCAL idle_in_transaction_session_timeout = 0');
    const late = await ledger.toWrite(orgId);
    await submitJobs(slow, [late]);
    const after: string[] = [];
    for (let n = 0; n < 5; n++) after.push((await ledger.submitOne({ orgId })).id);
    await noteSettled(ledger.db.maintenance);
    await noteSettled(ledger.db.maintenance);
    const first = await search(orgId);
    expect(first.jobs.map((job) => job.id)).toEqual(old.slice(0, 3));
    const second = await search(orgId, first.nextCursor);
    expect(second.jobs.map((job) => job.id)).toEqual(old.slice(3));
    await slow.query('COMMIT');
    const third = await search(orgId, second.nextCursor);
    expect(third.jobs.map((job) => job.id)).toEqual([late.id, ...after.slice(0, 2)]);
  } finally {
    slow.release(true);
  }
});

test('a session of another role that takes the name of the rollup writer holds events back as any other does', async () => {
  const orgId = await ledger.newOrg();
  const id = await webhooks.register(orgId, { events: ['job.created'] });
  await ledger.db.maintenance.query(`GRANT ALL ON ALL TABLES IN SCHEMA millrace TO ${role};
    GRANT ALL ON ALL SEQUENCES IN SCHEMA millrace TO ${role}`);
  const forged = await searching.connect();
  try {
    await forged.query(`SET application_name = 'millrace rollup writer'; BEGIN`);
    const late = await ledger.submitOneOn(forged, { orgId });
    const quick = await ledger.submitOne({ orgId });
    await dispatchEvents(ledger.db.maintenance);
    expect(await webhooks.deliveries({ webhookId: id })).toEqual([]);
    await forged.query('COMMIT');
    await webhooks.dispatch();
    expect((await webhooks.deliveries({ webhookId: id })).map(({ job_id }) => job_id)).toEqual([late.id, quick.id]);
  } finally {
    forged.release(true);
  }
});

test('a search does not pass over a transaction that is prepared and committed later', async () => {
  const { rows } = await ledger.db.api.query(`SELECT current_setting('max_prepared_transactions')::int4 AS most`);
  if (rows[0].most === 0) return;
  const orgId = await ledger.newOrg();
  const slow = await ledger.db.workers.connect();
  await slow.query('BEGIN');
  await submitJobs(slow, [await ledger.toWrite(orgId)]);
  await slow.query(`PREPARE TRANSACTION '${role}'`);
  slow.release();
  for (let n = 0; n < 5; n++) await ledger.submitOne({ orgId });
  await ledger.moveClock(60_000);
  expect((await search(orgId)).jobs).toEqual([]);
  await ledger.db.maintenance.query(`COMMIT PREPARED '${role}'`);
  expect((await search(orgId)).jobs).toHaveLength(3);
});
