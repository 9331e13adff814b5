import { describe, expect, it } from 'vitest';
import { useExecution } from './execution-fixture.ts';
import { dial } from './server-fixture.ts';

const server = useExecution();

const headersOf = ({ headers }: { headers: Headers }) => ({
  sniffing: headers.get('x-content-type-options'),
  frames: headers.get('content-security-policy')?.includes("frame-ancestors 'none'"),
  caching: headers.get('cache-control'),
});
const PRIVATE = { sniffing: 'nosniff', frames: true, caching: 'no-store' };

describe('every response', () => {
  it.each([
    ['/healthz', 200],
    ['/openapi.json', 200],
    ['/metrics', 200],
    ['/nowhere', 404],
    ['/v1/nowhere', 404],
    ['/v1/jobs', 401],
    ['/queue/v1/jobs/none', 401],
    ['/queue/v1/%zz', 400],
    ['/', 302],
  ])('forbids frames, guesses of its type and copies: %s %i', async (path, status) => {
    const answer = await fetch(server.url + path, { redirect: 'manual' });
    expect(answer.status).toBe(status);
    expect(headersOf(answer)).toEqual(PRIVATE);
  });

  it.each(['/docs', '/docs/start.js', '/docs/swagger-ui.css', '/docs/errors'])('of a page forbids frames and guesses: %s', async (path) => {
    expect(headersOf(await fetch(server.url + path))).toMatchObject({ sniffing: 'nosniff', frames: true });
  });

  it('to bytes that are no request has them as well', async () => {
    const socket = await dial(Number(new URL(server.url).port));
    socket.write('GET / HTTP/1.1\r\nbad header\r\n\r\n');
    await socket.whenClosed;
    for (const header of ['x-content-type-options: nosniff', "frame-ancestors 'none'", 'cache-control: no-store']) {
      expect(socket.received()).toContain(header);
    }
  });
});

describe('a response with a secret is not stored', () => {
  it('of a client and its keys, nor are the errors of these requests', async () => {
    const nobody = server.nobody();
    const created = await nobody.post('/clients');
    const keys = `/clients/${created.body.client_id}/keys`;
    const issued = await nobody.post(keys, {});
    const client = nobody.holding(issued.body.api_key);
    const answers = [created, issued, await nobody.post(keys, {}), await client.post(keys, { rotate: 1 }), await client.post(keys, {})];
    expect(answers.map(({ status }) => status)).toEqual([201, 201, 401, 400, 200]);
    const renewed = await client.post(`${keys}/renew`);
    expect(renewed.body.api_key).toMatch(/\w{20}/);
    for (const answer of [...answers, renewed, await client.post(`${keys}/renew`)]) expect(headersOf(answer)).toEqual(PRIVATE);
  });

  it('of a webhook', async () => {
    const client = await server.client();
    const registered = await client.post('/webhooks', { url: 'https://hooks.example.com/jobs', events: ['*'] });
    const rotated = await client.post(`/webhooks/${registered.body.webhook_id}/secret/rotate`);
    const refused = await client.post('/webhooks', { url: 'none' });
    expect([registered.status, rotated.status, refused.status]).toEqual([201, 200, 400]);
    for (const answer of [registered, rotated, refused]) expect(headersOf(answer)).toEqual(PRIVATE);
  });
});
