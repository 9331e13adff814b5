import { describe, expect, it } from 'vitest';
import type { ReceiverMode } from '../../src/simulator/webhook-receiver.ts';
import { type DeliveringServer, deliveriesOf, register, useDelivering } from '../http/delivering-server.ts';
import { randomId } from '../http/execution-fixture.ts';
import { until } from '../until.ts';

const HOUR_MS = 3_600_000;

const hasty = useDelivering({
  environment: { MILLRACE_WEBHOOKS_TIMEOUT: '200ms', MILLRACE_WEBHOOKS_MAX_RETRIES: '1' },
});
const calm = useDelivering({
  environment: { MILLRACE_WEBHOOKS_TIMEOUT: '20s', MILLRACE_WEBHOOKS_MAX_RETRIES: '3' },
});
const hourly = useDelivering({
  environment: { MILLRACE_WEBHOOKS_BACKOFF_BASE: '1h', MILLRACE_WEBHOOKS_BACKOFF_MAX: '1h' },
});

/** One event for a receiver in this mode. */
async function tell(server: DeliveringServer, mode: ReceiverMode) {
  const client = await server.client();
  const url = server.receiver.url(mode, randomId());
  const id = await register(client, url, 'job.succeeded');
  await client.submit();
  const arrived = () => server.receiver.received().filter(({ path }) => path === new URL(url).pathname + new URL(url).search).length;
  return { client, id, arrived };
}

async function delivered(server: DeliveringServer, mode: ReceiverMode) {
  const { client, id } = await tell(server, mode);
  const [delivery] = await deliveriesOf(client, id, 1);
  return delivery;
}

describe('what the settings of webhooks do', () => {
  it('a call may take as long as the timeout says [FR-18.05]', async () => {
    const late = await delivered(hasty, 'slow?ms=1000');
    expect(late?.state).toBe('failed');
    expect(late?.attempts.map(({ error_code }) => error_code)).toEqual(['TIMEOUT', 'TIMEOUT']);
    const inTime = await delivered(calm, 'slow?ms=1000');
    expect(inTime).toMatchObject({ state: 'delivered', attempts: [{ status: 200 }] });
  });

  it('a failed call is repeated as often, and as soon, as the policy says [FR-18.06]', async () => {
    expect((await delivered(hasty, '5xx'))?.attempts).toHaveLength(2);
    expect((await delivered(calm, '5xx'))?.attempts).toHaveLength(4);
    const { client, id, arrived } = await tell(hourly, '5xx');
    const shown = async () => (await client.get(`/webhooks/${id}/deliveries`)).body.deliveries[0];
    await until('the first attempt is shown', async () => (await shown())?.attempts.length, 1);
    expect((await shown()).state).toBe('retrying');
    // Spread around its time by a quarter of it at most.
    await hourly.ledger.moveClock(HOUR_MS / 2);
    expect(arrived()).toBe(1);
    await hourly.ledger.moveClock(HOUR_MS);
    await until('the second attempt is shown', async () => (await shown()).attempts.length, 2);
    expect(arrived()).toBe(2);
  });
});
