import { describe, expect, it } from 'vitest';
import { verifyWebhook } from '../../src/client/index.ts';
import type { WorkKind } from '../../src/core/execution/kinds.ts';
import { openReceiver, type ReceiverMode } from '../../src/simulator/webhook-receiver.ts';
import { type DeliveringServer, type Delivery, deliveriesOf, useDelivering } from '../http/delivering-server.ts';
import { randomId, type TestClient } from '../http/execution-fixture.ts';
import { until } from '../until.ts';

const EVENTS = ['job.created', 'job.queued', 'job.assigned', 'job.running', 'job.succeeded'];
const MAX_RETRIES = 2;

// Long enough that only a receiver that never answers is too late, also on a busy machine.
const server = useDelivering({
  environment: { MILLRACE_WEBHOOKS_TIMEOUT: '60s', MILLRACE_WEBHOOKS_MAX_RETRIES: String(MAX_RETRIES) },
});
// On a busy machine, calls after the first may be too late as well.
const hasty = useDelivering({
  environment: { MILLRACE_WEBHOOKS_TIMEOUT: '500ms', MILLRACE_WEBHOOKS_MAX_RETRIES: '20' },
});

/** What the API shows of a callback once everything is delivered or given up. */
async function deliveriesTo(client: TestClient, url: string): Promise<Delivery[]> {
  let id: string | undefined;
  await until('the callback is listed', async () => {
    const { body } = await client.get('/webhooks', { kind: 'callback' });
    id = body.webhooks.find((each: { url: string }) => each.url === url)?.webhook_id;
    return id !== undefined;
  });
  return deliveriesOf(client, id as string, EVENTS.length);
}

async function run(kind: WorkKind, mode: ReceiverMode, from: DeliveringServer = server) {
  const client = await from.client();
  const url = from.receiver.url(mode, randomId());
  const jobId = await client.submit({ work_kind: kind, callback: url });
  const job = await client.reached(jobId, 'SUCCEEDED', 'FAILED', 'CANCELED');
  const deliveries = await deliveriesTo(client, url);
  const { pathname, search } = new URL(url);
  const received = from.receiver.received().filter(({ path }) => path === pathname + search);
  return { client, job, jobId, deliveries, received, report: await client.report(jobId) };
}

/** The first time each message arrived, in order. */
const firsts = <T extends { messageId: string | null }>(received: readonly T[]): T[] =>
  [...new Map(received.toReversed().map((one) => [one.messageId, one])).values()].toReversed();

describe('a job with a callback', () => {
  it('whose receiver answers is delivered, with the events of its report, in order and signed [FR-06.38]', async () => {
    const { client, job, deliveries, received, report } = await run('WEBHOOK_SUCCESS', 'ok');
    expect(job).toMatchObject({ state: 'SUCCEEDED', outcome: 'SUCCESS' });
    expect(deliveries.map(({ event }) => event).sort()).toEqual([...EVENTS].sort());
    for (const { state, attempts } of deliveries) {
      expect(state).toBe('delivered');
      expect(attempts).toMatchObject([{ status: 200, error_code: null, verdict: 'delivered' }]);
    }
    const told = received.map(({ body }) => JSON.parse(body));
    expect(told.map(({ type }) => type)).toEqual(EVENTS);
    const ids = report.events.map(({ event_id }: { event_id: string }) => event_id);
    expect(told.map(({ data }) => data.event_id)).toEqual(ids);
    expect(new Set(received.map(({ messageId }) => messageId)).size).toBe(EVENTS.length);
    const { body } = await client.post('/webhooks/callbacks/secret', {});
    const [last] = received.slice(-1);
    // The secret before still counts, but only the server knows it: the new one signs what comes from now on.
    await expect(verifyWebhook({ ...last!, secret: body.secret })).rejects.toMatchObject({ code: 'NO_MATCH' });
    const url = server.receiver.url('ok', randomId());
    await client.submit({ callback: url });
    await deliveriesTo(client, url);
    const signed = server.receiver.received().filter(({ path }) => path === new URL(url).pathname);
    for (const message of signed) {
      expect(await verifyWebhook({ ...message, secret: body.secret })).toEqual(JSON.parse(message.body));
    }
  });

  it('whose receiver does not answer in time is retried, and the job has long succeeded [FR-06.39]', async () => {
    const { job, deliveries, received } = await run('WEBHOOK_TIMEOUT', 'timeout?times=1', hasty);
    expect(job.state).toBe('SUCCEEDED');
    for (const { state, attempts } of deliveries) {
      expect(state).toBe('delivered');
      expect(attempts[0]).toMatchObject({ status: null, error_code: 'TIMEOUT', verdict: 'retry' });
      expect(attempts.at(-1)).toMatchObject({ status: 200, verdict: 'delivered' });
    }
    expect(firsts(received).map(({ body }) => JSON.parse(body).type)).toEqual(EVENTS);
  });

  it('whose receiver answers 500 is retried under the same id [FR-06.40]', async () => {
    const { job, deliveries, received } = await run('WEBHOOK_5XX', '5xx-then-ok?times=1');
    expect(job.state).toBe('SUCCEEDED');
    for (const { state, attempts, message_id } of deliveries) {
      expect(state).toBe('delivered');
      expect(attempts).toMatchObject([
        { status: 500, verdict: 'retry' },
        { status: 200, verdict: 'delivered' },
      ]);
      expect(received.filter(({ messageId }) => messageId === message_id)).toHaveLength(2);
    }
    expect(firsts(received).map(({ body }) => JSON.parse(body).type)).toEqual(EVENTS);
  });

  it('whose receiver always answers 500 is given up after the last retry, and stays succeeded [FR-06.41]', async () => {
    const { client, job, jobId, deliveries } = await run('WEBHOOK_RETRIES_EXHAUSTED', '5xx');
    expect(job).toMatchObject({ state: 'SUCCEEDED', outcome: 'SUCCESS' });
    for (const { state, attempts } of deliveries) {
      expect(state).toBe('failed');
      expect(attempts).toHaveLength(MAX_RETRIES + 1);
      for (const { status } of attempts) expect(status).toBe(500);
    }
    expect(await client.state(jobId)).toBe('SUCCEEDED');
  });

  it('whose receiver is slow is delivered late, and nothing more [FR-06.42]', async () => {
    const { job, deliveries } = await run('WEBHOOK_SLOW_RECEIVER', 'slow?ms=200');
    expect(job.state).toBe('SUCCEEDED');
    for (const { state, attempts } of deliveries) {
      expect(state).toBe('delivered');
      expect(attempts.at(-1)?.status).toBe(200);
      expect(attempts.at(-1)?.duration_ms).toBeGreaterThanOrEqual(200);
    }
  });

  it('is done although nobody listens at its callback', async () => {
    const client = await server.client();
    const closed = await openReceiver();
    const url = closed.url('ok');
    await closed.close();
    const jobId = await client.submit({ work_kind: 'WEBHOOK_SUCCESS', callback: url });
    expect((await client.reached(jobId, 'SUCCEEDED')).outcome).toBe('SUCCESS');
    for (const { state, attempts } of await deliveriesTo(client, url)) {
      expect(state).toBe('failed');
      expect(attempts.map(({ error_code }) => error_code)).toEqual(Array(MAX_RETRIES + 1).fill('CONNECT'));
    }
  });
});
