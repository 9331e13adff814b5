import { expect, test } from 'vitest';
import '../../src/ledger/webhooks/dispatch-events.ts';
import '../../src/ledger/webhooks/load-delivery.ts';
import '../../src/ledger/webhooks/promote-deliveries.ts';
import '../../src/ledger/webhooks/queue-deliveries.ts';
import '../../src/ledger/webhooks/ready-lanes.ts';
import { allStatements } from '../../src/ledger/driver/statement.ts';
import { useLedger } from './fixture.ts';

const ledger = useLedger();

const FULL = '00000000-0000-4000-8000-00000000000f';
const OWN = '00000000-0000-4000-8000-000000000000';
/** Of a statement for one lane, with room for the empty partitions that are looked into. */
const MAX_BLOCKS = 160;

// A connection keeps the plan that it made when the tables were empty. Then this much is queued for others.
const FILL = `
  INSERT INTO millrace.webhooks (id, org_id, kind, url, events, created_at, updated_at)
    SELECT gen_random_uuid(), gen_random_uuid(), 'webhook', 'https://example.com/' || n, '{job.created}', now(), now()
    FROM generate_series(1, 8000) n;
  UPDATE millrace.webhooks SET id = '${OWN}' WHERE url = 'https://example.com/8000';
  INSERT INTO millrace.webhook_lanes (webhook_id, org_id, origin) SELECT id, org_id, millrace.origin_of(kind, url) FROM millrace.webhooks;
  INSERT INTO millrace.webhook_deliveries (id, org_id, webhook_id, position, event, body, state, created_at)
    SELECT gen_random_uuid(), w.org_id, w.id, nextval('millrace.delivery_position'), 'job.created', repeat('x', 400), 'queued', now()
    FROM (SELECT id, org_id FROM millrace.webhooks LIMIT 10) w, generate_series(1, 500)
    UNION ALL SELECT '${OWN}', w.org_id, w.id, 1, 'job.created', '{}', 'queued', now() FROM millrace.webhooks w WHERE id = '${OWN}';
  INSERT INTO millrace.records (id, at, org_id, from_state, to_state, priority, job_type, reason, seqs)
    SELECT n, now(), '${OWN}', 'pending', 'scheduled', 2, 'x', 'submitted', ARRAY[n] FROM generate_series(1, 20000) n;`;
/** By a transaction of its own: all of that is dispatched. */
const ADVANCE = `UPDATE millrace.projections SET txid = pg_current_xact_id() WHERE name = 'webhooks'`;

/** Beside them an org without room: its lanes are ready at one origin that is full, and at one that is left alone. */
const CROWD = `
  INSERT INTO millrace.webhooks (id, org_id, kind, url, events, created_at, updated_at)
    SELECT gen_random_uuid(), '${FULL}', 'callback', 'https://' || CASE WHEN n % 2 = 0 THEN 'full' ELSE 'dead' END || '.example/' || n, '{}',
      now(), now() FROM generate_series(1, 8000) n;
  INSERT INTO millrace.webhook_lanes (webhook_id, org_id, origin, is_callback, due_at, is_ready, standing)
    SELECT id, org_id, millrace.origin_of(kind, url), true, now(), true, 0 FROM millrace.webhooks WHERE org_id = '${FULL}';
  INSERT INTO millrace.callback_origins (org_id, origin, failures, failing_since, next_at)
    VALUES ('${FULL}', millrace.origin_of('callback', 'https://dead.example/'), 9, now(), now() + interval '1 hour');
  UPDATE millrace.webhook_lanes SET due_at = NULL, is_ready = false, live_delivery = gen_random_uuid(), live_job = gen_random_uuid()
    WHERE webhook_id IN (SELECT id FROM millrace.webhooks WHERE org_id = '${FULL}' AND url LIKE 'https://full%' LIMIT 4);
  UPDATE millrace.webhook_lanes SET due_at = now(), is_ready = true, standing = 0 WHERE webhook_id = '${OWN}';
  UPDATE millrace.webhook_lanes SET due_at = now() + interval '1 hour' WHERE due_at IS NULL AND live_job IS NULL;`;

const LANE = `('{${OWN}}')`;

const CASES: readonly [name: string, pool: 'workers' | 'maintenance', values: string][] = [
  ['take_first_deliveries', 'workers', LANE],
  ['load_delivery', 'workers', `('${OWN}', '${OWN}')`],
  ['make_lanes_due', 'workers', LANE],
  ['make_lanes_due', 'maintenance', LANE],
  ['outbox_peek', 'maintenance', ''],
];

const START = '70000000-0000-4000-8000-000000000000';
/** Whoever may start, with four calls allowed for an origin. */
const READY_CASES: typeof CASES = [
  ['find_ready_lanes', 'workers', `(0, '${START}', 100, 4, 5, 200, 4)`],
  ['ripen_lanes', 'workers', '(200)'],
  ['next_due_lane', 'workers', ''],
  ['count_live_lanes', 'workers', ''],
  ['outbox_page', 'maintenance', "('0', 0, 0, 0, 64, 5000)"],
  ['outbox_peek', 'maintenance', ''],
  ['queued_targets', 'maintenance', ''],
];

/** The blocks that each of these statements touches, by plans made before the tables were filled, and how many rows it gives. */
async function measure(cases: typeof CASES, fill: string): Promise<{ name: string; blocks: number; rows: number }[]> {
  const sessions = { workers: await ledger.db.workers.connect(), maintenance: await ledger.db.maintenance.connect() };
  try {
    for (const [name, pool, values] of cases) {
      const text = allStatements().find((made) => made.name === `millrace_${name}`)?.text ?? '';
      await sessions[pool].query('SET plan_cache_mode = force_generic_plan');
      await sessions[pool].query(`PREPARE ${name} AS ${text}`);
      await sessions[pool].query(`EXPLAIN EXECUTE ${name} ${values}`);
    }
    await ledger.db.api.query(fill);
    await ledger.db.api.query(ADVANCE);
    const measured: { name: string; blocks: number; rows: number }[] = [];
    for (const [name, pool, values] of cases) {
      const { rows } = await sessions[pool].query(`EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE ${name} ${values}`);
      const [{ Plan: plan }] = rows[0]['QUERY PLAN'];
      const blocks = plan['Shared Hit Blocks'] + plan['Shared Read Blocks'];
      measured.push({ name: `${name}, ${pool}`, blocks, rows: plan['Actual Rows'] });
    }
    return measured;
  } finally {
    for (const session of Object.values(sessions)) session.release(true);
  }
}

test('the cost of a delivery does not grow with what is queued for others, even by plans made before', async () => {
  for (const { name, blocks } of await measure(CASES, FILL)) expect(blocks, name).toBeLessThan(MAX_BLOCKS);
});

test('promoting, dispatching and sweeping cost no more for lanes of an org without room, for those that wait, or for targets that are idle', async () => {
  const measured = await measure(READY_CASES, `TRUNCATE millrace.webhooks, millrace.records CASCADE; ${FILL} ${CROWD}`);
  for (const { name, blocks } of measured) expect(blocks, name).toBeLessThan(MAX_BLOCKS);
  // Its own lane, and the one by which the origin is seen to be left alone.
  expect(measured[0]).toMatchObject({ rows: 2 });
});
