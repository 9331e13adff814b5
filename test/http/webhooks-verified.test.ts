import { expect, it } from 'vitest';
import { until } from '../until.ts';
import { deliveriesOf, register, useDelivering } from './delivering-server.ts';
import { StrictEndpoint } from './strict-endpoint.ts';

const server = useDelivering({ environment: { MILLRACE_WEBHOOKS_MAX_RETRIES: '2' } });

it('an endpoint that does not accept the test message gets no event, and the deliveries fail', async () => {
  const endpoint = await StrictEndpoint.open();
  endpoint.status = 404;
  const client = await server.client();
  const webhookId = await register(client, endpoint.url('/a'), 'job.created', 'job.succeeded');
  await client.submit({ type: 'EXECUTE' });
  const deliveries = await deliveriesOf(client, webhookId, 2);
  expect(deliveries.map(({ state, attempts }) => [state, attempts.map(({ status }) => status)])).toEqual([
    ['failed', [404, 404, 404]],
    ['failed', [404, 404, 404]],
  ]);
  expect(new Set(endpoint.calls.map(({ type }) => type))).toEqual(new Set(['webhook.test']));
});

it('an endpoint gets one signed test message before its first event, and events once it accepts it', async () => {
  const endpoint = await StrictEndpoint.open();
  const client = await server.client();
  const webhookId = await register(client, endpoint.url('/a'), 'job.created', 'job.succeeded');
  for (let job = 1; job <= 2; job++) {
    await client.submit({ type: 'EXECUTE' });
    await deliveriesOf(client, webhookId, 2 * job);
  }
  const [first, ...events] = endpoint.typesAt('/a');
  expect(first).toBe('webhook.test');
  expect(events.toSorted()).toEqual(['job.created', 'job.created', 'job.succeeded', 'job.succeeded']);
  expect(endpoint.calls.every(({ signature }) => signature.startsWith('v1,'))).toBe(true);
});

it('a callback gets no test message, and its origin is verified for the client whose callback it accepted', async () => {
  const endpoint = await StrictEndpoint.open();
  const [one, other] = [await server.client(), await server.client()];
  const done = (path: string) => until(`the callback at ${path} is complete`, () => endpoint.typesAt(path).includes('job.succeeded'));
  await one.submit({ type: 'EXECUTE', callback: endpoint.url('/one/1') });
  await done('/one/1');
  await one.submit({ type: 'EXECUTE', callback: endpoint.url('/one/2') });
  await other.submit({ type: 'EXECUTE', callback: endpoint.url('/other') });
  await Promise.all([done('/one/2'), done('/other')]);
  expect(endpoint.calls.map(({ type }) => type)).not.toContain('webhook.test');
  const text = 'SELECT org_id FROM millrace.verified_origins WHERE org_id = ANY ($1)';
  const verified = async () => (await server.ledger.db.maintenance.query(text, [[one.clientId, other.clientId]])).rowCount;
  await until('both clients have a verified origin', verified, 2);
});
