import { expect, test } from 'vitest';
import { ensureCallbackOrg } from '../../src/ledger/webhooks/callback-orgs.ts';
import { type Dispatched, dispatchEvents } from '../../src/ledger/webhooks/dispatch-events.ts';
import { until } from '../until.ts';
import { useLedger } from './fixture.ts';
import { TestWebhooks } from './webhook-fixture.ts';

const ledger = useLedger();
const webhooks = new TestWebhooks(ledger);

const MAX_PAGE = 5_000;

/** One transaction that submits `records` times `jobs` jobs like the first, each time with one record. */
async function submitLarge(orgId: string, { records, jobs }: { records: number; jobs: number }): Promise<void> {
  const first = await ledger.submitOne({ orgId });
  const text = `WITH record AS MATERIALIZED (SELECT nextval('millrace.record_id') AS id), made AS (
      INSERT INTO millrace.jobs (seq, org_id, id, created_at, updated_at, run_at, order_key, policy_id, state, priority,
        requested_priority, max_attempts, event_count, record_ids, queue, job_type, callback_url)
      SELECT nextval('millrace.job_seq'), org_id, gen_random_uuid(), now(), now(), now(), 1, policy_id, state, priority, priority,
        max_attempts, 1, ARRAY[(SELECT id FROM record)], queue, job_type, callback_url
      FROM millrace.jobs, generate_series(1, $2::int4) WHERE id = $1 RETURNING *)
    INSERT INTO millrace.records (id, at, org_id, from_state, to_state, priority, job_type, reason, seqs)
    SELECT (SELECT id FROM record), now(), org_id, 'pending', 'scheduled', priority, job_type, 'submitted', array_agg(seq)
    FROM made GROUP BY org_id, priority, job_type`;
  const client = await ledger.db.maintenance.connect();
  try {
    await client.query('BEGIN');
    for (let record = 0; record < records; record++) await client.query(text, [first.id, jobs]);
    await client.query('COMMIT');
  } finally {
    client.release();
  }
}

const eventsOf = (round: Dispatched): number => (round.kind === 'dispatched' ? round.events : 0);

test.each([
  ['one record of 30 000 jobs', { records: 1, jobs: 30_000 }],
  ['100 records of 100 jobs', { records: 100, jobs: 100 }],
])('a transaction with %s is dispatched in pages, in order and once', { timeout: 240_000 }, async (_, size) => {
  const orgId = await ledger.newOrg();
  const id = await webhooks.register(orgId, { events: ['job.created'] });
  await submitLarge(orgId, size);
  const after = await webhooks.register(orgId, { events: ['job.created'] });
  const small = await ledger.submitOne({ orgId });
  const rounds = await webhooks.dispatch();
  expect(Math.max(...rounds.map(eventsOf))).toBeLessThanOrEqual(MAX_PAGE);
  const [found] = await webhooks.sql<{ made: number; jobs: number; is_ordered: boolean }>(
    `SELECT count(*)::int4 AS made, count(DISTINCT d.job_id)::int4 AS jobs, bool_and(d.seq > d.previous) IS NOT FALSE AS is_ordered
     FROM (SELECT d.job_id, j.seq, lag(j.seq) OVER (ORDER BY d.position) AS previous
       FROM millrace.webhook_deliveries d JOIN millrace.jobs j ON j.id = d.job_id WHERE d.webhook_id = $1) d`,
    [id],
  );
  const jobs = size.records * size.jobs + 2;
  expect(found).toEqual({ made: jobs, jobs, is_ordered: true });
  expect((await webhooks.deliveries({ webhookId: after })).map(({ job_id }) => job_id)).toEqual([small.id]);
});

test('a page ends earlier where its deliveries would take too many bytes', { timeout: 180_000 }, async () => {
  const orgId = await ledger.newOrg();
  const ids = await Promise.all(Array.from({ length: 20 }, () => webhooks.register(orgId, { events: ['job.created'] })));
  await submitLarge(orgId, { records: 1, jobs: 1_600 });
  const rounds = await webhooks.dispatch();
  // 32 000 deliveries of some 350 bytes each: a page of 8 MB does not hold them all.
  expect(Math.max(...rounds.map(eventsOf))).toBeLessThan(1_500);
  for (const webhookId of ids) expect(await webhooks.events(webhookId)).toHaveLength(1_601);
});

test('a dispatcher that stops between two pages of a transaction is followed by one that goes on there', async () => {
  const orgId = await ledger.newOrg();
  await ensureCallbackOrg(ledger.db.api, orgId);
  const id = await webhooks.register(orgId, { events: ['job.created'] });
  await submitLarge(orgId, { records: 3, jobs: 10 });
  await until('all 31 events are dispatched', async () => {
    await Promise.all([4, 7, 3].map((events) => dispatchEvents(ledger.db.maintenance, { events })));
    return (await webhooks.events(id)).length >= 31;
  });
  await webhooks.dispatch();
  const jobs = (await webhooks.deliveries({ webhookId: id })).map(({ job_id }) => job_id);
  expect([jobs.length, new Set(jobs).size]).toEqual([31, 31]);
});
