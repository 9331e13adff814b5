import { randomUUID } from 'node:crypto';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { describe, expect, it } from 'vitest';
import { useExecution } from './execution-fixture.ts';

const server = useExecution();
const EXECUTE = { type: 'EXECUTE', work_kind: 'SUCCESS_FAST' };
const PROBLEM = 'application/problem+json';

/** What the server answers to a request written by hand. */
async function write(lines: readonly string[], body = ''): Promise<string> {
  const socket = connect(Number(new URL(server.url).port), '127.0.0.1');
  socket.end(`${[...lines, 'Connection: close'].join('\r\n')}\r\n\r\n${body}`);
  return text(socket);
}

describe('the address and the key', () => {
  it('all routes are below /v1 and nowhere else [FR-08.01]', async () => {
    const client = await server.client();
    expect((await client.get('/jobs')).status).toBe(200);
    const headers = { authorization: `Bearer ${client.key}` };
    for (const path of ['/jobs', '/v2/jobs', '/api/v1/jobs']) {
      expect([path, (await fetch(server.url + path, { headers })).status]).toEqual([path, 404]);
    }
  });

  it('the key is taken as Authorization: Bearer, and in no other way [FR-08.03]', async () => {
    const client = await server.client();
    const nobody = server.nobody();
    const statuses = async (headers: Record<string, string>, path = '/jobs') =>
      (await nobody.send('GET', path, undefined, { headers })).status;
    const key = client.key as string;
    expect(await statuses({ authorization: `Bearer ${key}` })).toBe(200);
    expect(await statuses({ authorization: `bearer ${key}` })).toBe(200);
    expect(await statuses({ authorization: key })).toBe(401);
    expect(await statuses({ authorization: `Basic ${key}` })).toBe(401);
    expect(await statuses({ 'x-api-key': key })).toBe(401);
    const answer = await nobody.send('GET', '/jobs', undefined, { search: `?api_key=${key}` });
    expect([answer.status, answer.headers.get('www-authenticate')]).toEqual([401, 'Bearer realm="millrace"']);
  });
});

describe('calls that need no key', () => {
  it('are counted by address also when they carry something that looks like one [FR-14.84]', async () => {
    const nobody = server.nobody().at(await server.listen({ settings: { openCallsPerMinute: 1 } }));
    expect((await nobody.post('/clients')).status).toBe(201);
    const { status, body } = await nobody.post('/clients', undefined, { authorization: 'Bearer anything' });
    expect([status, body.code]).toEqual([429, 'RFA_REQUEST_RATE_LIMITED']);
  });
});

describe('the media types', () => {
  it('answers are application/json, errors application/problem+json [FR-08.02] [FR-14.100]', async () => {
    const client = await server.client();
    expect((await client.get('/jobs')).headers.get('content-type')).toMatch(/^application\/json\b/);
    expect((await client.post('/jobs', EXECUTE)).headers.get('content-type')).toMatch(/^application\/json\b/);
    expect((await client.get(`/jobs/${randomUUID()}`)).headers.get('content-type')).toBe(PROBLEM);
  });

  it.each(['text/plain', 'application/xml', 'application/x-www-form-urlencoded', 'nonsense'])(
    'a body of type %s is refused with 415, and makes nothing [FR-08.02] [FR-14.72]',
    async (type) => {
      const client = await server.client();
      const answer = await client.post('/jobs', JSON.stringify(EXECUTE), { 'content-type': type });
      expect([answer.status, answer.body.code]).toEqual([415, 'RFA_REQUEST_UNSUPPORTED_MEDIA_TYPE']);
      expect((await client.get('/jobs')).body.jobs).toEqual([]);
    },
  );

  it('a request without a body needs no type, and may name any [FR-08.02]', async () => {
    const client = await server.client();
    const jobId = await client.submit();
    for (const type of [null, 'application/x-www-form-urlencoded', 'a/b']) {
      const headers = type === null ? undefined : { 'content-type': type };
      expect((await client.post(`/jobs/${jobId}/cancel`, undefined, headers)).status).toBe(200);
    }
  });

  it.each(['*/*', 'application/*', 'application/json', PROBLEM, 'text/html, application/json;q=0.1', ''])(
    'Accept: %s passes',
    async (accept) => {
      expect((await (await server.client()).get('/jobs', {}, { accept })).status).toBe(200);
    },
  );

  it.each(['text/html', 'text/*, image/png', 'application/json;q=0', 'application/xml'])(
    'Accept: %s is refused with 406 before anything is done [FR-14.74]',
    async (accept) => {
      const client = await server.client();
      const answer = await client.post('/jobs', EXECUTE, { accept });
      expect([answer.status, answer.body.code]).toEqual([406, 'RFA_REQUEST_NOT_ACCEPTABLE']);
      expect(answer.headers.get('content-type')).toBe(PROBLEM);
      expect((await client.get('/jobs')).body.jobs).toEqual([]);
    },
  );
});

describe('the body of an error', () => {
  it('has the members of RFC 7807 and the code, and errors for fields [FR-14.101] [FR-14.102] [FR-14.103] [FR-14.104] [FR-14.105] [FR-14.106]', async () => {
    const client = await server.client();
    const { status, body, headers } = await client.post('/jobs', { type: 'SOMETHING', callback: 'ftp://a' });
    expect(Object.keys(body)).toEqual(['type', 'title', 'status', 'detail', 'instance', 'code', 'errors']);
    expect(body).toMatchObject({
      ...{ type: `${server.url}/docs/errors/RFA_JOB_VALIDATION_FAILED`, title: 'Validation failed', status: 400 },
      ...{ instance: headers.get('x-request-id'), code: 'RFA_JOB_VALIDATION_FAILED' },
    });
    expect(status).toBe(400);
    expect(body.detail).toMatch(/^type must be .* Correct the fields named in errors and send the request again\.$/);
    expect(body.errors.map(({ field }: { field: string }) => field)).toEqual(['type', 'callback']);
  });

  it('its type answers with a page about the error [FR-14.101]', async () => {
    const { body } = await server.nobody().get('/jobs');
    const page = await fetch(body.type);
    expect(page.status).toBe(200);
    expect(await page.text()).toContain('RFA_AUTH_INVALID_CREDENTIALS');
  });

  it('its type is relative where the host is not fit to be repeated, or absent [FR-14.101]', async () => {
    for (const head of [['GET /v1/nothing HTTP/1.1', 'Host: "><script>'], ['GET /v1/nothing HTTP/1.0']]) {
      const answer = await write(head);
      expect(answer).toContain('"type":"/docs/errors/RFA_REQUEST_');
      expect(answer).not.toContain('<script>');
    }
  });

  it('its instance is the id that the caller gave the request [FR-14.105]', async () => {
    const answer = await (await server.client()).get('/nothing', {}, { 'x-request-id': 'mine-4711' });
    expect([answer.body.instance, answer.headers.get('x-request-id')]).toEqual(['mine-4711', 'mine-4711']);
  });

  it('says nothing of the inside of the server [FR-14.85]', async () => {
    const url = await server.listen({
      authenticator: {
        async authenticate() {
          throw new Error('password=hunter2 in /etc/millrace');
        },
      },
    });
    const { status, body } = await server.nobody().at(url).get('/jobs');
    expect([status, body.code]).toEqual([500, 'RFA_INTERNAL']);
    expect(JSON.stringify(body)).not.toMatch(/hunter2|etc/);
  });
});

describe('a request that is too large or malformed [FR-14.19]', () => {
  it.each([
    ['half of a document', '{"type":'],
    ['no JSON', 'EXECUTE'],
    ['not UTF-8', '\u0000'],
    ['a list', '[]'],
    ['a text', '"EXECUTE"'],
    ['null', 'null'],
    ['a number where text is due', '{"type":5}'],
    ['nothing required', '{}'],
    ['nested too deep', `${'['.repeat(100)}${']'.repeat(100)}`],
  ])('%s is malformed [FR-14.71]', async (_what, body) => {
    const answer = await (await server.client()).post('/jobs', body);
    expect([answer.status, answer.body.code]).toEqual([400, 'RFA_REQUEST_MALFORMED']);
  });

  it('a body with very many wrong members lists the first twenty', async () => {
    const client = await server.client();
    const members = Object.fromEntries(Array.from({ length: 3_000 }, (_, n) => [`${'member'.repeat(5)}${n}`, 'x']));
    const { status, body } = await client.post('/jobs', { type: 'EXECUTE', ...members });
    expect([status, body.code, body.errors.length]).toEqual([400, 'RFA_JOB_VALIDATION_FAILED', 20]);
    expect(body.detail).toContain('(and at least 19 more)');
    const more = Object.fromEntries(Array.from({ length: 6_000 }, (_, n) => [`m${n}`, 'x']));
    const refused = await client.post('/jobs', { type: 'EXECUTE', ...more });
    expect([refused.status, refused.body.errors]).toEqual([400, [expect.objectContaining({ code: 'TOO_MANY_VALUES' })]]);
  });

  it('a body over its limit is refused with 413, whether or not it says how long it is [FR-14.75]', async () => {
    const client = await server.client();
    const large = JSON.stringify({
      ...EXECUTE,
      callback: `https://a.example/${'a'.repeat(server.settings.bodyBytes)}`,
    });
    const answer = await client.post('/jobs', large);
    expect([answer.status, answer.body.code]).toEqual([413, 'RFA_REQUEST_PAYLOAD_TOO_LARGE']);
    const head = ['POST /v1/jobs HTTP/1.1', 'Host: localhost', `Authorization: Bearer ${client.key}`];
    const chunked = [...head, 'Content-Type: application/json', 'Transfer-Encoding: chunked'];
    const answered = await write(chunked, `${large.length.toString(16)}\r\n${large}\r\n0\r\n\r\n`);
    expect(answered).toMatch(/^HTTP\/1\.1 413 /);
    expect((await client.get('/jobs')).body.jobs).toEqual([]);
  });
});
