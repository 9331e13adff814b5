import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { until } from '../until.ts';
import { type TestClient, useExecution } from './execution-fixture.ts';
import { dial } from './server-fixture.ts';

const server = useExecution();
const EXECUTE = { type: 'EXECUTE', work_kind: 'SUCCESS_FAST' };

const portOf = (url = server.url) => Number(new URL(url).port);

/** One success of every operation that needs no waiting. */
const SUCCESSES: Record<string, [status: number, (client: TestClient, jobId: string) => Promise<{ status: number }>]> = {
  createClient: [201, () => server.nobody().post('/clients')],
  issueKey: [201, (client) => client.post(`/clients/${client.clientId}/keys`, { rotate: true })],
  renewKey: [200, (client) => client.post(`/clients/${client.clientId}/keys/renew`, {})],
  revokeKey: [200, async (client) => client.post(`/clients/${client.clientId}/keys/revoke`, await keyOf(client))],
  getClient: [200, (client) => client.get('/clients/me')],
  submitExecution: [202, (client) => client.post('/jobs', EXECUTE)],
  getExecution: [200, (client, jobId) => client.get(`/jobs/${jobId}`)],
  getExecutionReport: [200, (client, jobId) => client.get(`/jobs/${jobId}/report`)],
  listExecutions: [200, (client) => client.get('/jobs')],
  listExecutionReports: [200, (client) => client.get('/reports')],
  cancelExecution: [200, (client, jobId) => client.post(`/jobs/${jobId}/cancel`)],
  retryExecution: [200, (client, jobId) => client.post(`/jobs/${jobId}/retry`)],
  getExecutionHealth: [200, () => server.nobody().get('/health')],
};

async function keyOf(client: TestClient): Promise<{ key_id: string }> {
  const { keys } = (await client.get('/clients/me')).body;
  return { key_id: keys[0].key_id };
}

describe('the statuses of success', () => {
  it.each(Object.entries(SUCCESSES))(
    '%s answers %i: reads and actions 200, what creates 201, what is only accepted 202 [FR-14.95] [FR-14.96] [FR-14.97]',
    async (_operation, [status, call]) => {
      const client = await server.client();
      const jobId = await client.submit();
      await client.reached(jobId, 'SUCCEEDED');
      expect((await call(client, jobId)).status).toBe(status);
    },
  );

  it('there is one for every operation that the document names, but for webhooks', () => {
    const own = server.contract.operations.filter(({ operation }) => operation.tags?.includes('execution'));
    const ids = own.filter(({ path }) => !path.includes('webhook')).map(({ operation }) => operation.operationId);
    expect(Object.keys(SUCCESSES).sort()).toEqual(ids.sort());
  });

  it('202 comes before the work is done; the caller polls and finds the end [FR-14.97]', async () => {
    const client = await server.client();
    await server.worker('none');
    const { status, body } = await client.post('/jobs', EXECUTE);
    expect([status, body.state, await client.state(body.job_id)]).toEqual([202, 'QUEUED', 'QUEUED']);
    await server.worker('start');
    expect(await client.reached(body.job_id, 'SUCCEEDED')).toMatchObject({ outcome: 'SUCCESS' });
  });

  it('204 is not used: every success says something [FR-14.98]', () => {
    for (const { path, operation } of server.contract.operations.filter(({ path }) => path.startsWith('/v1/'))) {
      const successes = Object.entries(operation.responses).filter(([status]) => Number(status) < 300);
      expect(successes.length).toBeGreaterThan(0);
      for (const [status, { content }] of successes) {
        expect([path, status, Object.keys(content ?? {}).length > 0]).toEqual([path, expect.not.stringMatching('204'), true]);
      }
    }
  });
});

describe('1xx is never sent', () => {
  it('not to Expect: 100-continue: the body is taken when it comes [FR-14.94]', async () => {
    // The body may be late, because a busy machine may need a while for the request in between.
    const url = await server.listen({ uploadGraceMs: 60_000 });
    const client = (await server.client()).at(url);
    const body = JSON.stringify(EXECUTE);
    const socket = await dial(portOf(url));
    socket.write(
      [
        ...['POST /v1/jobs HTTP/1.1', 'Host: localhost', `Authorization: Bearer ${client.key}`, 'Expect: 100-continue'],
        ...['Content-Type: application/json', `Content-Length: ${body.length}`, 'Connection: close', '', ''],
      ].join('\r\n'),
    );
    // Whatever the server had to say of the head, it has said before it answers to another connection.
    await client.get('/jobs');
    expect(socket.received()).toBe('');
    socket.write(body);
    await socket.whenClosed;
    expect(socket.received()).toMatch(/^HTTP\/1\.1 202 Accepted\r\n/);
  });

  it('not to Upgrade: the request is answered as any other [FR-14.94]', async () => {
    const socket = await dial(portOf());
    const head = ['GET /v1/health HTTP/1.1', 'Host: localhost', 'Connection: Upgrade', 'Upgrade: websocket'];
    socket.write(`${[...head, 'Sec-WebSocket-Version: 13', 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=='].join('\r\n')}\r\n\r\n`);
    const h2c = await dial(portOf());
    h2c.write(
      'GET /v1/health HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n',
    );
    for (const each of [socket, h2c]) {
      await until(
        'the whole head is there',
        () => each.received(),
        (seen) => seen.includes('\r\n\r\n'),
      );
      expect(each.received()).toMatch(/^HTTP\/1\.1 200 /);
    }
  });
});

describe('3xx is never sent', () => {
  it.each([
    ['a path with a slash at its end', '/health/', {}],
    ['a path with two', '//health', {}],
    ['a conditional request', '/health', { 'if-none-match': '*', 'if-modified-since': new Date().toUTCString() }],
    ['a path in other letters', '/HEALTH', {}],
  ])('not for %s [FR-14.99]', async (_what, path, headers) => {
    const response = await server.nobody().raw('GET', path, undefined, { headers });
    expect(response.redirected).toBe(false);
    expect([200, 404]).toContain(response.status);
  });

  it('and the document names none, nor any 1xx [FR-14.94] [FR-14.99]', () => {
    const own = server.contract.operations.filter(({ path }) => path.startsWith('/v1/'));
    const statuses = own.flatMap(({ operation }) => Object.keys(operation.responses).map(Number));
    expect(statuses.filter((status) => status < 200 || (status >= 300 && status < 400))).toEqual([]);
  });
});

describe('a method that a path does not have', () => {
  it('is refused with 405 and the methods it has, on every path, without asking for a key [FR-14.73]', async () => {
    const paths = Object.entries(server.contract.document.paths).filter(([path]) => path.startsWith('/v1/'));
    expect(paths.length).toBeGreaterThan(10);
    for (const [path, methods] of paths) {
      const address = path.replace('/v1', '').replace(/\{\w+\}/g, randomUUID());
      const known = Object.keys(methods).map((method) => method.toUpperCase());
      for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'].filter((each) => !known.includes(each))) {
        const body = method === 'POST' || method === 'PUT' ? 'no JSON' : undefined;
        const answer = await server.nobody().send(method, address, body);
        expect([method, path, answer.status]).toEqual([method, path, 405]);
        expect(answer.body.code).toBe('RFA_REQUEST_METHOD_NOT_ALLOWED');
        expect((answer.headers.get('allow') ?? '').split(', ')).toEqual(expect.arrayContaining(known));
      }
    }
  });

  it('is 404 for an unknown path [FR-14.73]', async () => {
    for (const method of ['GET', 'POST', 'DELETE']) {
      const { status, body } = await server.nobody().send(method, '/jobs/a/b/c');
      expect([status, body.code]).toEqual([404, 'RFA_REQUEST_NOT_FOUND']);
    }
  });
});
