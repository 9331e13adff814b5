import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { PROFILES } from '../../src/core/policy.ts';
import { makeLanesDue } from '../../src/ledger/webhooks/queue-deliveries.ts';
import { createEngine } from '../../src/services/jobs/create-engine.ts';
import { createDeliveries } from '../../src/services/webhooks/delivery-services.ts';
import { useLedger } from '../ledger/fixture.ts';
import { TestWebhooks } from '../ledger/webhook-fixture.ts';

const ledger = useLedger();
const webhooks = new TestWebhooks(ledger);
const LOCK = 42;

/** Whoever leaves a lane waits, with its mind made up, while somebody holds the lock. */
async function pauseLeaving(): Promise<void> {
  await webhooks.sql(`CREATE FUNCTION pause() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    PERFORM pg_advisory_xact_lock(${LOCK}); RETURN NEW; END $$`);
  await webhooks.sql(`CREATE TRIGGER pause AFTER UPDATE ON millrace.webhook_lanes
    FOR EACH ROW WHEN (OLD.live_delivery IS NOT NULL AND NEW.live_delivery IS NULL) EXECUTE FUNCTION pause()`);
}

const queue = (webhookId: string, orgId: string, state = 'queued') =>
  webhooks.sql<{ id: string }>(
    `INSERT INTO millrace.webhook_deliveries (id, org_id, webhook_id, position, event, body, state, created_at)
     VALUES (gen_random_uuid(), $2, $1, nextval('millrace.delivery_position'), 'webhook.test', '{}', $3, millrace.clock()) RETURNING id`,
    [webhookId, orgId, state],
  );

test('a delivery that is queued while the one before it ends starts at once, without waiting for a sweep', async () => {
  const orgId = await ledger.newOrg();
  const id = await webhooks.register(orgId);
  const engine = createEngine({ database: ledger.db, profile: PROFILES.gopherqueue });
  const settings = { timeoutMs: 5_000, maxRetries: 5, backoff: { initialMs: 1, maxMs: 5 }, verifies: false };
  const breaker = { threshold: 5, initialMs: 1, maxMs: 10 };
  const limits = { retentionMs: 86_400_000, slots: 16, disableAfterMs: 432_000_000 };
  const { desk } = createDeliveries({ engine, settings, breaker, ...limits });
  const [live] = await queue(id, orgId, 'live');
  const jobId = randomUUID();
  await webhooks.sql('UPDATE millrace.webhook_lanes SET live_delivery = $2, live_job = $3 WHERE webhook_id = $1', [
    ...[id, live?.id, jobId],
  ]);
  await pauseLeaving();
  const holder = await ledger.db.maintenance.connect();
  await holder.query(`SELECT pg_advisory_lock(${LOCK})`);
  const context = {
    jobId,
    signal: new AbortController().signal,
    assertOwned: async () => {},
    completeIn: async () => {},
  };
  const said = { status: 200, errorCode: null, durationMs: 1, answer: null, retryAfterMs: null };
  const outcome = { verdict: 'delivered', ...said } as const;
  const finishing = desk.finish(context, live?.id as string, outcome);
  await ledger.untilBlocked();
  await queue(id, orgId);
  expect(await makeLanesDue(ledger.db.api, [id])).toBe(0);
  await holder.query(`SELECT pg_advisory_unlock(${LOCK})`);
  holder.release();
  await finishing;
  expect((await webhooks.lane(id)).due_at).not.toBe(null);
});
