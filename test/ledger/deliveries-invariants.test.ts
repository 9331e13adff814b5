import { randomUUID } from 'node:crypto';
import { beforeEach, describe, expect, test } from 'vitest';
import { checkInvariants } from '../../src/ledger/upkeep/invariants.ts';
import { ensureCallbackOrg } from '../../src/ledger/webhooks/callback-orgs.ts';
import { type TestJob, useLedger } from './fixture.ts';
import { TestWebhooks } from './webhook-fixture.ts';

const ledger = useLedger();
const webhooks = new TestWebhooks(ledger);
const CALLBACK = 'https://example.com/callback';

/** Only what a test planted itself: earlier ones left theirs. */
const found = async (orgId: string) => (await checkInvariants(ledger.db.maintenance)).filter((violation) => violation.orgId === orgId);

let orgId: string;
let webhookId: string;
let job: TestJob;

beforeEach(async () => {
  orgId = await ledger.newOrg();
  await ensureCallbackOrg(ledger.db.api, orgId);
  webhookId = await webhooks.register(orgId, { events: ['job.running', 'job.succeeded'] });
  job = await ledger.putJob('completed', { orgId, job: { callbackUrl: CALLBACK } });
  await ledger.putJob('dead_letter', { orgId, job: { callbackUrl: CALLBACK } });
  await ledger.putJob('running', { orgId });
  await webhooks.dispatch();
  expect(await found(orgId)).toEqual([]);
});

describe('I7: deliveries', () => {
  test('an event that a webhook asked for and never gets', async () => {
    await webhooks.sql(`DELETE FROM millrace.webhook_deliveries WHERE webhook_id = $1 AND event = 'job.succeeded'`, [webhookId]);
    const what = `job.succeeded (event 3) was never queued for ${webhookId}`;
    expect(await found(orgId)).toEqual([{ invariant: 'I7', orgId, jobId: job.id, what }]);
  });

  test('an end without a delivery for its callback', async () => {
    const target = await webhooks.callbackOf(orgId);
    await webhooks.sql('DELETE FROM millrace.webhook_deliveries WHERE webhook_id = $1 AND job_id = $2', [target, job.id]);
    expect(await found(orgId)).toMatchObject([{ invariant: 'I7', jobId: job.id, what: expect.stringContaining(CALLBACK) }]);
  });

  test('a delivery that no webhook asked for', async () => {
    await webhooks.sql(`UPDATE millrace.webhook_deliveries SET n = 1 WHERE webhook_id = $1 AND event = 'job.succeeded'`, [webhookId]);
    const whats = (await found(orgId)).map(({ what }) => what);
    expect(whats).toContainEqual(expect.stringMatching(/job\.created .* is not for webhook/));
  });

  test('an event that does not exist', async () => {
    await webhooks.sql(`UPDATE millrace.webhook_deliveries SET index = 7 WHERE webhook_id = $1 AND event = 'job.succeeded'`, [webhookId]);
    const whats = (await found(orgId)).map(({ what }) => what);
    expect(whats).toContainEqual('event 3 has a delivery but nothing to deliver');
  });

  test('events from before the webhook, or from before its change, are not reported', async () => {
    await webhooks.sql(`UPDATE millrace.webhooks SET events = '{job.created}', filter_txid = pg_current_xact_id() WHERE id = $1`, [
      webhookId,
    ]);
    await webhooks.register(orgId);
    expect(await found(orgId)).toEqual([]);
  });

  test('events that are not dispatched yet are not reported', async () => {
    await ledger.putJob('completed', { orgId, job: { callbackUrl: CALLBACK } });
    expect(await found(orgId)).toEqual([]);
  });
});

describe('I7: lanes', () => {
  const firstDelivery = async () => (await webhooks.deliveries({ webhookId }))[0]?.id as string;
  const setLane = (delivery: string, jobId: string) =>
    webhooks.sql('UPDATE millrace.webhook_lanes SET live_delivery = $2, live_job = $3 WHERE webhook_id = $1', [webhookId, delivery, jobId]);
  const setState = (delivery: string, state: string) =>
    webhooks.sql('UPDATE millrace.webhook_deliveries SET state = $2 WHERE id = $1', [delivery, state]);

  test('a live delivery that its lane does not name', async () => {
    await setState(await firstDelivery(), 'live');
    expect(await found(orgId)).toMatchObject([{ what: expect.stringMatching(/not the one of its lane/) }]);
  });

  test('a lane whose delivery is not live', async () => {
    await setLane(await firstDelivery(), (await ledger.submitOne()).id);
    expect(await found(orgId)).toMatchObject([{ what: expect.stringMatching(/delivery that is queued/) }]);
  });

  test('a lane that waits for a job that is gone', async () => {
    const delivery = await firstDelivery();
    await setState(delivery, 'live');
    await setLane(delivery, randomUUID());
    expect(await found(orgId)).toMatchObject([{ what: expect.stringMatching(/waits for a job that has ended/) }]);
  });
});
