import { readFile } from 'node:fs/promises';
import { afterEach, describe, expect, test } from 'vitest';
import { EXECUTION_TYPE } from '../../src/core/execution/kinds.ts';
import { PROFILES } from '../../src/core/policy.ts';
import { inTransaction } from '../../src/ledger/driver/database.ts';
import { ensureCallbackOrg } from '../../src/ledger/webhooks/callback-orgs.ts';
import { nextDueMs, takeFirstDeliveries } from '../../src/ledger/webhooks/promote-deliveries.ts';
import { makeLanesDue } from '../../src/ledger/webhooks/queue-deliveries.ts';
import { type LaneBounds, lockReadyLanes } from '../../src/ledger/webhooks/ready-lanes.ts';
import { pruneDeliveries } from '../../src/ledger/webhooks/sweep-lanes.ts';
import { useLedger } from './fixture.ts';
import { useLockPatience } from './patient.ts';
import { TestWebhooks } from './webhook-fixture.ts';

const ledger = useLedger();
useLockPatience(ledger);
const webhooks = new TestWebhooks(ledger);
const DAY = 86_400_000;

/** Each test has lanes of its own. */
afterEach(async () => {
  await webhooks.sql('TRUNCATE millrace.webhooks CASCADE');
});

/** A webhook with one delivery queued. */
async function queued(orgId: string): Promise<string> {
  const id = await webhooks.register(orgId, { events: ['job.created'] });
  await ledger.submitOne({ orgId });
  await webhooks.dispatch();
  return id;
}

const set = (webhookId: string, change: string) =>
  webhooks.sql(`UPDATE millrace.webhook_lanes SET ${change} WHERE webhook_id = $1`, [webhookId]);

const BOUNDS: LaneBounds = { org: 100, origin: 100, unverified: 100, unknown: 100, failing: 100, threshold: 5 };
const START = '80000000-0000-4000-8000-000000000000';

/** The lanes that would start now; null while another promoter is at work. Only one is ever asked at a time otherwise. */
const lock = async (bounds: Partial<LaneBounds> = {}) =>
  inTransaction(ledger.db.workers, async (client) => {
    const lanes = await lockReadyLanes(client, { limit: 200, bounds: { ...BOUNDS, ...bounds }, start: START });
    return lanes?.map(({ webhookId }) => webhookId).sort() ?? null;
  });

describe('lanes', () => {
  test('become due when something is queued, once the breaker lets them, and only if their target is enabled', async () => {
    const [plain, open, disabled] = [
      await queued(await ledger.newOrg()),
      await queued(await ledger.newOrg()),
      await queued(await ledger.newOrg()),
    ];
    await set(open, `failures = 5, failing_since = millrace.clock(), next_at = millrace.clock() + interval '1 hour'`);
    await webhooks.sql(`UPDATE millrace.webhooks SET disabled_at = now(), disabled_reason = 'manual' WHERE id = $1`, [disabled]);
    expect(await makeLanesDue(ledger.db.api, null)).toBe(2);
    expect(await makeLanesDue(ledger.db.api, null)).toBe(0);
    expect(await lock()).toEqual([plain]);
    const waitMs = (await nextDueMs(ledger.db.api)) as number;
    expect(waitMs).toBeGreaterThan(3_500_000);
    expect((await webhooks.lane(disabled)).due_at).toBe(null);
  });

  test('are taken by one promoter at a time, and each delivery once', async () => {
    const id = await queued(await ledger.newOrg());
    await makeLanesDue(ledger.db.api, [id]);
    await inTransaction(ledger.db.workers, async (client) => {
      const mine = await lockReadyLanes(client, { limit: 10, bounds: BOUNDS, start: START });
      expect(mine).toMatchObject([{ webhookId: id, isFailing: false }]);
      expect(await lock()).toBe(null);
      expect(await takeFirstDeliveries(client, [id])).toMatchObject([{ webhookId: id, tries: 0 }]);
    });
    expect(await takeFirstDeliveries(ledger.db.workers, [id])).toEqual([]);
  });

  test('a transaction that makes a lane due waits for the delivery that ends in it', async () => {
    const id = await queued(await ledger.newOrg());
    const ending = await ledger.db.workers.connect();
    try {
      await ending.query('BEGIN');
      await ending.query('SELECT FROM millrace.webhook_lanes WHERE webhook_id = $1 FOR UPDATE', [id]);
      const made = makeLanesDue(ledger.db.api, [id]);
      await ledger.untilBlocked();
      await ending.query('COMMIT');
      expect(await made).toBe(1);
    } finally {
      ending.release(true);
    }
  });
});

describe('retention', () => {
  const prune = () => pruneDeliveries(ledger.db.maintenance, { retentionMs: DAY, limit: 100 });
  const age = (webhookId: string) =>
    webhooks.sql(`UPDATE millrace.webhook_deliveries SET created_at = created_at - interval '2 days' WHERE webhook_id = $1`, [webhookId]);

  test('keeps the deliveries of a job as long as the job, and removes them after it', async () => {
    const orgId = await ledger.newOrg();
    const id = await queued(orgId);
    await age(id);
    await prune();
    expect(await webhooks.events(id)).toHaveLength(1);
    await webhooks.sql('DELETE FROM millrace.jobs WHERE org_id = $1', [orgId]);
    await prune();
    expect(await webhooks.events(id)).toHaveLength(0);
  });

  test('removes a callback with its last delivery, unless somebody disabled it; a webhook stays', async () => {
    const orgId = await ledger.newOrg();
    await ensureCallbackOrg(ledger.db.api, orgId);
    const webhook = await queued(orgId);
    for (const path of ['used', 'kept'])
      await ledger.submitOne({
        orgId,
        job: { callbackUrl: `https://example.com/${path}`, policy: PROFILES.forgerun, type: EXECUTION_TYPE },
      });
    await webhooks.dispatch();
    const callbacks = () =>
      webhooks.sql<{ id: string; url: string }>(
        `SELECT id, url FROM millrace.webhooks WHERE kind = 'callback' AND org_id = $1 ORDER BY url`,
        [orgId],
      );
    const [kept, used] = await callbacks();
    expect([kept?.url, used?.url]).toEqual(['https://example.com/kept', 'https://example.com/used']);
    await webhooks.sql(`UPDATE millrace.webhooks SET disabled_at = now(), disabled_reason = 'manual' WHERE id = $1`, [kept?.id]);
    for (const id of [webhook, kept?.id, used?.id]) await age(id as string);
    await prune();
    expect(await callbacks()).toHaveLength(2);
    await webhooks.sql('DELETE FROM millrace.jobs WHERE org_id = $1', [orgId]);
    await prune();
    expect(await callbacks()).toEqual([kept]);
    expect(await webhooks.lane(webhook)).toBeDefined();
  });

  test('removes a deleted target when nothing of it is left', async () => {
    const orgId = await ledger.newOrg();
    const id = await queued(orgId);
    await webhooks.sql(`UPDATE millrace.webhooks SET deleted_at = now() - interval '2 days' WHERE id = $1`, [id]);
    await prune();
    expect(await webhooks.lane(id)).toBeDefined();
    await webhooks.sql('DELETE FROM millrace.webhook_deliveries WHERE webhook_id = $1', [id]);
    await prune();
    expect(await webhooks.lane(id)).toBeUndefined();
  });
});

test('what submits, starts and ends jobs knows nothing of deliveries [FR-14.53]', async () => {
  const files = [
    ...['jobs/submit-jobs', 'jobs/cancel-jobs', 'jobs/retry-jobs'],
    ...['attempts/claim-and-start', 'attempts/claim-text', 'attempts/complete-jobs', 'attempts/settle-jobs'],
  ];
  for (const file of files) {
    const text = await readFile(new URL(`../../src/ledger/${file}.ts`, import.meta.url), 'utf8');
    expect(text, file).toMatch(/millrace\.|statement/);
    expect(text, file).not.toMatch(/webhook|deliver|callback_orgs/i);
  }
});
