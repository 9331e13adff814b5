import { describe, expect, it } from 'vitest';
import { deliveriesOf, register, useDelivering } from '../http/delivering-server.ts';
import { randomId } from '../http/execution-fixture.ts';
import { until } from '../until.ts';

const server = useDelivering();

async function counted(name: string): Promise<number> {
  const line = (await server.telemetry.metrics.text()).split('\n').find((each) => each.startsWith(`${name} `));
  return Number(line?.slice(name.length + 1) ?? 0);
}

/** One event that arrives at the second try. */
async function told() {
  const client = await server.client();
  const id = await register(client, server.receiver.url('5xx-then-ok?times=1', randomId()), 'job.succeeded');
  const jobId = await client.submit();
  const [delivery] = await deliveriesOf(client, id, 1);
  const attempts = () => server.logs.filter((line) => line.message === 'webhook.attempt' && line.webhook_id === id);
  await until('two attempts have been reported', () => attempts().length, 2);
  return { client, id, jobId, delivery, attempts: attempts() };
}

describe('what is told of webhooks', () => {
  it('counts calls that succeeded and calls that failed [FR-16.16] [FR-16.17] [FR-16.22]', async () => {
    const before = [await counted('webhook_deliveries_total'), await counted('webhook_failures_total')];
    await told();
    const after = [await counted('webhook_deliveries_total'), await counted('webhook_failures_total')];
    expect(after.map((count, at) => count - (before[at] as number))).toEqual([1, 1]);
  });

  it('logs each call with its status, and with the job that it is about [FR-16.32] [AB-obs.03] [AB-obs.05]', async () => {
    const { client, jobId, delivery, attempts } = await told();
    const job = { job_id: jobId, job_type: 'forgerun.simulated', org_id: client.clientId, correlation_id: expect.any(String) };
    const common = { client_id: client.clientId, ...job, event: 'job.succeeded' };
    expect(attempts).toMatchObject([
      { ...common, level: 'warn', attempt: 1, verdict: 'retry', status: 500 },
      { ...common, level: 'info', attempt: 2, verdict: 'delivered', status: 200 },
    ]);
    expect(delivery?.message_id).toBe(`msg_${String(attempts[0]?.delivery_id).replaceAll('-', '')}`);
  });

  it('counts and logs what is disabled for how it answers, also where no other webhook could be told', async () => {
    const client = await server.client();
    const name = 'webhooks_disabled_total{reason="gone"}';
    const before = await counted(name);
    const id = await register(client, server.receiver.url('gone', randomId()), 'job.succeeded');
    await client.post(`/webhooks/${id}/test`);
    const lines = () => server.logs.filter((line) => line.message === 'webhook.disabled' && line.webhook_id === id);
    await until('the line has been logged', () => lines().length, 1);
    expect(lines()).toMatchObject([{ level: 'warn', client_id: client.clientId, reason: 'gone' }]);
    expect((await counted(name)) - before).toBe(1);
    const queued = async (): Promise<string[]> => {
      const { body } = await client.get(`/webhooks/${id}/deliveries`, { state: 'queued' });
      return body.deliveries.map(({ event }: { event: string }) => event);
    };
    await until('the event about it is queued', queued, ['webhook.disabled']);
  });

  it('follows an event in the trace of its job, from the submission to the notification [FR-16.36]', async () => {
    const { jobId } = await told();
    const spansOf = () => server.spans.filter(({ attributes }) => attributes.job_id === jobId);
    await until('both notifications are traced', () => spansOf().filter(({ name }) => name === 'notify').length, 2);
    const ofJob = spansOf();
    const submitted = ofJob.find(({ name }) => name === 'submit');
    const notified = ofJob.filter(({ name }) => name === 'notify');
    expect(submitted).toBeDefined();
    expect(notified.map(({ attributes }) => attributes.status)).toEqual([500, 200]);
    for (const { traceId, parentId, startedAtMs, endedAtMs } of notified) {
      expect(traceId).toBe(submitted?.traceId);
      expect(parentId).not.toBeNull();
      expect(endedAtMs).toBeGreaterThanOrEqual(startedAtMs);
    }
  });
});
