import { describe, expect, it } from 'vitest';
import { until } from '../until.ts';
import { deliveriesOf, register, useDelivering } from './delivering-server.ts';
import { randomId } from './execution-fixture.ts';

const server = useDelivering();

const sentTo = (label: string): string[] =>
  server.receiver
    .received()
    .filter(({ path }) => path.includes(label))
    .map(({ body }) => body);

describe('a message', () => {
  it('is what the document says of it, for every kind of event', async () => {
    const client = await server.client();
    const label = randomId();
    const id = await register(client, server.receiver.url('ok', label), '*');
    await client.submit({ type: 'EMIT_EVENT', work_kind: 'SUCCESS_FAST' });
    await client.submit({ type: 'EXECUTE', work_kind: 'FAIL_IMMEDIATE' });
    await client.post(`/webhooks/${id}/test`);
    const gone = await register(client, server.receiver.url('gone', randomId()), 'job.failed');
    await client.post(`/webhooks/${gone}/test`);
    const types = () => new Set(sentTo(label).map((body) => JSON.parse(body).type));
    const wanted = ['job.created', 'job.succeeded', 'job.event_emitted', 'job.failed', 'webhook.test', 'webhook.disabled'];
    await until('every kind of event has been received', () => wanted.every((type) => types().has(type)));
    for (const body of sentTo(label)) server.contract.checkShape('WebhookMessage', JSON.parse(body));
    expect(() => server.contract.checkShape('WebhookMessage', { type: 'job.succeeded' })).toThrow();
  });

  it('has its times to the millisecond', async () => {
    const client = await server.client();
    const label = randomId();
    const id = await register(client, server.receiver.url('ok', label), 'job.succeeded');
    await client.submit();
    await deliveriesOf(client, id, 1);
    const [message] = sentTo(label).map((body) => JSON.parse(body));
    for (const time of [message.timestamp, message.data.timestamp]) expect(time).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  });

  it('is in the document as a webhook, with its headers and what may be answered', () => {
    const { webhooks } = server.contract.document as unknown as {
      webhooks: Record<string, { post: { parameters: { name: string }[]; requestBody: unknown; responses: object } }>;
    };
    const { parameters, requestBody, responses } = webhooks.event?.post ?? {};
    expect(parameters?.map(({ name }) => name)).toEqual(['webhook-id', 'webhook-timestamp', 'webhook-signature']);
    expect(requestBody).toMatchObject({
      content: { 'application/json': { schema: { $ref: '#/components/schemas/WebhookMessage' } } },
    });
    expect(Object.keys(responses ?? {})).toEqual(['410', '2XX', 'default']);
  });
});
