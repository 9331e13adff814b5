import { describe, expect, test } from 'vitest';
import { inTransaction } from '../../src/ledger/driver/database.ts';
import { deleteWebhook } from '../../src/ledger/webhooks/change-webhook.ts';
import { until } from '../until.ts';
import { answered, failed, OK, type Sent, useDeliveries } from './delivery-fixture.ts';

const { ledger, webhooks, run } = useDeliveries();

const statesOf = async (webhookId: string) => (await webhooks.deliveries({ webhookId })).map(({ state }) => state);
const disabledOf = async (webhookId: string) =>
  (await webhooks.sql<{ disabled_reason: string | null }>('SELECT disabled_reason FROM millrace.webhooks WHERE id = $1', [webhookId]))[0]
    ?.disabled_reason;
const setDisabled = (webhookId: string, reason: string | null) =>
  webhooks.sql(
    `UPDATE millrace.webhooks SET disabled_at = CASE WHEN $2::text IS NOT NULL THEN millrace.clock() END, disabled_reason = $2::text WHERE id = $1`,
    [webhookId, reason],
  );
const heal = (webhookId: string) =>
  webhooks.sql(
    'UPDATE millrace.webhook_lanes SET failures = 0, failing_since = NULL, next_at = NULL, due_at = millrace.clock(), is_ready = true WHERE webhook_id = $1',
    [webhookId],
  );

describe('a target that is disabled', () => {
  test('410 disables it; its events are kept until it is enabled, and other webhooks of the org are notified', async () => {
    const orgId = await ledger.newOrg();
    const gone = await webhooks.register(orgId, { url: 'https://gone.example/' });
    const sibling = await webhooks.register(orgId, { events: ['webhook.disabled'] });
    const deaf = await webhooks.register(orgId, { events: ['job.failed'] });
    let isGone = true;
    const { sent, wake } = await run({ answer: ({ url }) => (url.includes('gone') && isGone ? answered(410) : OK) });
    await ledger.putJob('running', { orgId });
    await until('the sibling has received its event', async () => (await statesOf(sibling))[0], 'delivered');
    expect(await disabledOf(gone)).toBe('gone');
    await until('its other events are queued', async () => (await statesOf(gone)).join(), 'failed,queued,queued,queued,queued');
    expect(await webhooks.events(gone)).toContain('webhook.disabled');
    expect(await statesOf(deaf)).toEqual([]);
    const [notice] = await webhooks.deliveries({ webhookId: sibling });
    expect(notice).toMatchObject({
      event: 'webhook.disabled',
      job_id: null,
      data: { webhook_id: gone, reason: 'gone' },
    });
    expect(sent.filter(({ url }) => url.includes('gone'))).toHaveLength(1);
    isGone = false;
    await setDisabled(gone, null);
    await heal(gone);
    wake();
    await until(
      'the events after the first have been delivered',
      async () => (await statesOf(gone)).join(),
      'failed,delivered,delivered,delivered,delivered',
    );
  });

  test('one that fails for too long is disabled, not one that fails often', async () => {
    const orgId = await ledger.newOrg();
    const old = await webhooks.register(orgId, { url: 'https://old.example/', events: ['job.created'] });
    const young = await webhooks.register(orgId, { url: 'https://young.example/', events: ['job.created'] });
    const fail = `UPDATE millrace.webhook_lanes SET failures = 9, failing_since = millrace.clock() - $2::interval WHERE webhook_id = $1`;
    await webhooks.sql(fail, [old, '6 days']);
    await webhooks.sql(fail, [young, '4 days']);
    await run({ answer: () => failed('CONNECT') });
    await ledger.submitOne({ orgId });
    await until('the delivery for the young endpoint has failed', async () => (await statesOf(young))[0], 'failed');
    await until('the delivery for the old endpoint is queued', async () => (await statesOf(old))[0], 'queued');
    expect([await disabledOf(old), await disabledOf(young)]).toEqual(['failing', null]);
    expect((await webhooks.lane(old)).live_delivery).toBe(null);
  });

  test('a delivery that waits for its next attempt goes back to its place', async () => {
    const orgId = await ledger.newOrg();
    const id = await webhooks.register(orgId);
    let refuses = true;
    const { attempts, wake } = await run({ answer: () => (refuses ? answered(500, { 'retry-after': '3600' }) : OK) });
    await ledger.putJob('running', { orgId });
    await until('the first attempt has been made', () => attempts.length, 1);
    await setDisabled(id, 'manual');
    await until('all four events are queued', async () => (await statesOf(id)).join(), 'queued,queued,queued,queued');
    refuses = false;
    await setDisabled(id, null);
    await heal(id);
    wake();
    await until(
      'all events have been delivered',
      () => statesOf(id),
      (seen) => seen.every((state) => state === 'delivered'),
    );
    const told = () => attempts.map(({ event }) => event);
    await until('all attempts have been reported', told, ['job.created', 'job.created', 'job.queued', 'job.assigned', 'job.running']);
  });

  test('a deleted target takes the delivery with it that waits for its next attempt', async () => {
    const orgId = await ledger.newOrg();
    const id = await webhooks.register(orgId, { events: ['job.created'] });
    const { attempts } = await run({ answer: () => answered(500, { 'retry-after': '3600' }) });
    await ledger.submitOne({ orgId });
    await until('the first attempt has been made', () => attempts.length, 1);
    await inTransaction(ledger.db.api, (client) => deleteWebhook(client, orgId, id));
    expect(await webhooks.deliveries({ webhookId: id })).toEqual([]);
    expect(await webhooks.lane(id)).toMatchObject({ live_delivery: null, live_job: null, due_at: null });
  });

  test('a delivery that fails while its target is deleted is not tried again', async () => {
    const orgId = await ledger.newOrg();
    const id = await webhooks.register(orgId, { events: ['job.created'] });
    const { sent } = await run({
      answer: async () => {
        await inTransaction(ledger.db.api, (client) => deleteWebhook(client, orgId, id));
        return answered(500);
      },
    });
    await ledger.submitOne({ orgId });
    await until('the delivery has failed', async () => (await statesOf(id)).join(), 'failed');
    expect(await webhooks.lane(id)).toMatchObject({ live_delivery: null, live_job: null, due_at: null });
    expect(sent).toHaveLength(1);
  });
});

describe('a worker that loses its job', () => {
  test('during the call writes no attempt', async () => {
    const orgId = await ledger.newOrg();
    const id = await webhooks.register(orgId, { events: ['job.created'] });
    const { engine, attempts } = await run({
      answer: async () => {
        const text = `UPDATE millrace.jobs SET lease_seq = nextval('millrace.lease_seq')
          WHERE id = (SELECT live_job FROM millrace.webhook_lanes WHERE webhook_id = $1)`;
        await webhooks.sql(text, [id]);
        return answered(500);
      },
    });
    const lost = new Promise((resolve) => engine.events.on('lost', resolve));
    await ledger.submitOne({ orgId });
    await lost;
    expect(attempts).toEqual([]);
    expect(await webhooks.deliveries({ webhookId: id })).toMatchObject([{ state: 'live', attempts: 0 }]);
  });

  test('in the last attempt leaves a delivery that the sweep ends, and the next one goes out', async () => {
    const orgId = await ledger.newOrg();
    const id = await webhooks.register(orgId, { events: ['job.created', 'job.queued'] });
    const hanging: Sent[] = [];
    const { promoter, attempts } = await run({
      answer: (sent, { signal }) => {
        if (sent.event !== 'job.created') return OK;
        hanging.push(sent);
        return new Promise((resolve) => signal.addEventListener('abort', () => resolve(failed('ABORTED'))));
      },
    });
    await ledger.submitOne({ orgId });
    await until('one attempt hangs', () => hanging.length, 1);
    const end = `UPDATE millrace.jobs SET state = 'dead_letter', completed_at = millrace.clock(), worker_id = NULL, lease_seq = nextval('millrace.lease_seq')
      WHERE id = (SELECT live_job FROM millrace.webhook_lanes WHERE webhook_id = $1)`;
    await webhooks.sql(end, [id]);
    await promoter.sweep();
    await until('the second event has been delivered', async () => (await statesOf(id)).join(), 'failed,delivered');
    const told = () => attempts.map(({ verdict, errorCode }) => [verdict, errorCode]);
    await until('both attempts have been reported', told, [
      ['failed', 'WORKER_LOST'],
      ['delivered', null],
    ]);
  });
});
