import { expect, test } from 'vitest';
import '../../src/ledger/dispatch-events.ts';
import '../../src/ledger/load-delivery.ts';
import '../../src/ledger/promote-deliveries.ts';
import '../../src/ledger/queue-deliveries.ts';
import { ensurePartitions } from '../../src/ledger/record-partitions.ts';
import { allStatements } from '../../src/ledger/statement.ts';
import { useLedger } from './fixture.ts';

const ledger = useLedger();

const OWN = '00000000-0000-4000-8000-000000000000';
/** Of a statement for one lane, with room for the empty partitions that are looked into. */
const MAX_BLOCKS = 120;

// A connection keeps the plan that it made when the tables were empty. Then this much is queued for others.
const FILL = `
  INSERT INTO millrace.webhooks (id, org_id, kind, url, events, created_at, updated_at)
    SELECT gen_random_uuid(), gen_random_uuid(), 'webhook', 'https://example.com/' || n, '{job.created}', now(), now()
    FROM generate_series(1, 8000) n;
  UPDATE millrace.webhooks SET id = '${OWN}' WHERE url = 'https://example.com/8000';
  INSERT INTO millrace.webhook_lanes (webhook_id, org_id) SELECT id, org_id FROM millrace.webhooks;
  INSERT INTO millrace.webhook_deliveries (id, org_id, webhook_id, position, event, body, state, created_at)
    SELECT gen_random_uuid(), w.org_id, w.id, nextval('millrace.delivery_position'), 'job.created', repeat('x', 400), 'queued', now()
    FROM (SELECT id, org_id FROM millrace.webhooks LIMIT 10) w, generate_series(1, 500)
    UNION ALL SELECT '${OWN}', w.org_id, w.id, 1, 'job.created', '{}', 'queued', now() FROM millrace.webhooks w WHERE id = '${OWN}';
  INSERT INTO millrace.records (id, at, org_id, from_state, to_state, priority, job_type, reason, seqs)
    SELECT n, now(), '${OWN}', 'pending', 'scheduled', 2, 'x', 'submitted', ARRAY[n] FROM generate_series(1, 20000) n;
  UPDATE millrace.projections SET txid = pg_current_xact_id();`;

const LANE = `('{${OWN}}')`;

const CASES: readonly [name: string, pool: 'workers' | 'maintenance', values: string][] = [
  ['take_first_deliveries', 'workers', LANE],
  ['load_delivery', 'workers', `('${OWN}', '${OWN}')`],
  ['make_lanes_due', 'workers', LANE],
  ['make_lanes_due', 'maintenance', LANE],
  ['outbox_peek', 'maintenance', ''],
];

test('the cost of a delivery does not grow with what is queued for others, even by plans made before', async () => {
  await ensurePartitions(ledger.db.maintenance);
  const sessions = { workers: await ledger.db.workers.connect(), maintenance: await ledger.db.maintenance.connect() };
  try {
    for (const [name, pool, values] of CASES) {
      const text = allStatements().find((made) => made.name === `millrace_${name}`)?.text ?? '';
      await sessions[pool].query('SET plan_cache_mode = force_generic_plan');
      await sessions[pool].query(`PREPARE ${name} AS ${text}`);
      await sessions[pool].query(`EXPLAIN EXECUTE ${name} ${values}`);
    }
    await ledger.db.api.query(FILL);
    for (const [name, pool, values] of CASES) {
      const { rows } = await sessions[pool].query(`EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE ${name} ${values}`);
      const [{ Plan: plan }] = rows[0]['QUERY PLAN'];
      expect(plan['Shared Hit Blocks'] + plan['Shared Read Blocks'], `${name}, ${pool}`).toBeLessThan(MAX_BLOCKS);
    }
  } finally {
    for (const session of Object.values(sessions)) session.release(true);
  }
});
