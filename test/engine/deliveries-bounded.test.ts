import { describe, expect, test } from 'vitest';
import { inTransaction } from '../../src/ledger/driver/database.ts';
import { changeWebhook } from '../../src/ledger/webhooks/change-webhook.ts';
import { submitJob } from '../../src/services/jobs/submit-job.ts';
import { until } from '../until.ts';
import { answered, CALL_MS, failed, OK, useDeliveries } from './delivery-fixture.ts';

const { ledger, webhooks, run } = useDeliveries();
const SLOTS = 16;

const statesOf = async (webhookId: string) => (await webhooks.deliveries({ webhookId })).map(({ state }) => state);

describe('one host that hangs', () => {
  test('takes only a share of the slots with any number of callback URLs, and other clients are served', async () => {
    const [attacker, victim] = [await ledger.newOrg(), await ledger.newOrg()];
    const alive = await webhooks.register(victim, { url: 'https://alive.example/' });
    let inFlight = 0;
    let most = 0;
    const { engine, sent } = await run({
      slots: SLOTS,
      handlers: { quick: () => 'done' },
      answer: ({ url }, { signal }) => {
        if (url.includes('alive')) return OK;
        most = Math.max(most, ++inFlight);
        return new Promise((resolve) =>
          signal.addEventListener('abort', () => {
            inFlight--;
            resolve(failed('ABORTED'));
          }),
        );
      },
    });
    for (let no = 0; no < 4 * SLOTS; no++) {
      const callbackUrl = `https://hang.example/?job=${no}`;
      await submitJob(engine, {
        orgId: attacker,
        submission: { type: 'quick', payload: {}, callbackUrl },
        actor: null,
      });
    }
    await until(
      'the host hangs and all its deliveries are queued',
      async () => inFlight > 0 && (await webhooks.deliveries({ orgId: attacker })).length === 4 * SLOTS,
    );
    for (let count = 0; count < 3; count++)
      await submitJob(engine, { orgId: victim, submission: { type: 'quick', payload: {} }, actor: null });
    await until(
      'the other host has received its 15 events',
      async () => (await statesOf(alive)).filter((state) => state === 'delivered').length === 15,
    );
    expect(sent.filter(({ url }) => url.includes('alive'))).toHaveLength(15);
    expect(most).toBeGreaterThan(0);
    expect(most).toBeLessThanOrEqual(SLOTS / 4);
  });

  test('is asked once at a time by callbacks when it has failed often, and at once again when it answers', async () => {
    const orgId = await ledger.newOrg();
    let isDead = true;
    let inFlight = 0;
    const atOnce: number[] = [];
    const { engine, attempts } = await run({
      slots: SLOTS,
      handlers: { quick: () => 'done' },
      answer: async ({ url }) => {
        if (!url.includes('dead')) return OK;
        atOnce.push(++inFlight);
        await new Promise((resolve) => setImmediate(resolve));
        inFlight--;
        return isDead ? failed('CONNECT') : OK;
      },
      settings: { timeoutMs: CALL_MS, maxRetries: 50, backoff: { initialMs: 1, maxMs: 5 }, verifies: false },
    });
    for (let no = 0; no < 10; no++) {
      const callbackUrl = `https://dead.example/?job=${no}`;
      await submitJob(engine, { orgId, submission: { type: 'quick', payload: {}, callbackUrl }, actor: null });
    }
    await until(
      'the host has failed 30 times',
      () => attempts.length,
      (count) => count >= 30,
    );
    expect(Math.max(...atOnce.slice(15))).toBe(1);
    isDead = false;
    await until(
      'every delivery has arrived',
      () => webhooks.deliveries({ orgId }),
      (seen) => seen.every(({ state }) => state === 'delivered'),
    );
    const text = 'SELECT failures, next_at FROM millrace.callback_origins WHERE org_id = $1';
    expect(await webhooks.sql(text, [orgId])).toEqual([{ failures: 0, next_at: null }]);
  });
});

describe('a delivery that waits for its next attempt', () => {
  test.each([
    ['its webhook is enabled', { enabled: true }],
    ['its webhook has another URL', { url: 'https://other.example/' }],
  ])('starts at once when %s, with all of its attempts', async (_, change) => {
    const orgId = await ledger.newOrg();
    const webhookId = await webhooks.register(orgId, { events: ['job.created'] });
    let answer = answered(503, { 'retry-after': '3600' });
    const { attempts, wake } = await run({ answer: () => answer });
    await ledger.submitOne({ orgId });
    await until('the first attempt has been made', () => attempts.length, 1);
    expect(await webhooks.lane(webhookId)).toMatchObject({ live_delivery: null, failures: 1 });
    answer = OK;
    await inTransaction(ledger.db.api, (client) => changeWebhook(client, orgId, { webhookId, change }));
    const tries = 'SELECT tries FROM millrace.webhook_deliveries WHERE webhook_id = $1';
    wake();
    await until('the delivery has arrived', async () => (await statesOf(webhookId)).join(), 'delivered');
    expect(await webhooks.sql(tries, [webhookId])).toEqual([{ tries: 1 }]);
    expect(await webhooks.deliveries({ webhookId })).toMatchObject([{ attempts: 2 }]);
  });

  test('starts at once when its webhook is disabled and enabled again', async () => {
    const orgId = await ledger.newOrg();
    const webhookId = await webhooks.register(orgId, { events: ['job.created'] });
    let answer = answered(503, { 'retry-after': '3600' });
    const { attempts, wake } = await run({ answer: () => answer });
    await ledger.submitOne({ orgId });
    await until('the first attempt has been made', () => attempts.length, 1);
    answer = OK;
    for (const enabled of [false, true]) {
      const params = { webhookId, change: { enabled } };
      await inTransaction(ledger.db.api, (client) => changeWebhook(client, orgId, params));
    }
    wake();
    await until('the delivery has arrived', async () => (await statesOf(webhookId)).join(), 'delivered');
  });

  test('waits as long as the breaker says once that is open: each of its attempts is a probe', async () => {
    const orgId = await ledger.newOrg();
    const webhookId = await webhooks.register(orgId, { events: ['job.created'] });
    const breaker = { threshold: 3, initialMs: 3_600_000, maxMs: 3_600_000 };
    const { attempts } = await run({ breaker, answer: () => failed('CONNECT') });
    await ledger.submitOne({ orgId });
    await until('three attempts have been made', () => attempts.length, 3);
    const text = `SELECT due_at - millrace.clock() > interval '50 minutes' AS waits FROM millrace.webhook_lanes WHERE webhook_id = $1`;
    expect(await webhooks.sql(text, [webhookId])).toEqual([{ waits: true }]);
  });

  test('takes no room from others that failed', async () => {
    const waiting: string[] = [];
    const orgs = await Promise.all(Array.from({ length: SLOTS }, () => ledger.newOrg()));
    for (const orgId of orgs) waiting.push(await webhooks.register(orgId, { url: 'https://busy.example/', events: ['job.created'] }));
    const victim = await ledger.newOrg();
    const recovering = await webhooks.register(victim, { url: 'https://late.example/', events: ['job.created'] });
    let calls = 0;
    const { attempts } = await run({
      slots: SLOTS,
      answer: ({ url }) => {
        if (url.includes('busy')) return answered(503, { 'retry-after': '3600' });
        return ++calls < 3 ? failed('CONNECT') : OK;
      },
    });
    for (const orgId of orgs) await ledger.submitOne({ orgId });
    await until('every slot has made an attempt', () => attempts.length, SLOTS);
    await ledger.submitOne({ orgId: victim });
    await until('the host that recovers has received its event', async () => (await statesOf(recovering)).join(), 'delivered');
    for (const id of waiting) expect(await webhooks.lane(id)).toMatchObject({ failures: 1, live_job: null });
  });
});
