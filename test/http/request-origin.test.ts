import { describe, expect, it } from 'vitest';
import type { ServerOptions } from '../../src/http/server.ts';
import { until } from '../until.ts';
import { bodyOf, dial, serve, testDoor } from './server-fixture.ts';

/** Sends these lines as they are, and reads the status and the body of the response. */
async function sendLines(options: Partial<ServerOptions>, lines: readonly string[]) {
  const { port } = await serve(options);
  const socket = await dial(port);
  socket.write(`${lines.join('\r\n')}\r\nConnection: close\r\n\r\n`);
  await socket.whenClosed;
  const text = socket.received();
  return { status: Number(/^HTTP\/1\.1 (\d+)/.exec(text)?.[1]), text };
}

const get = (options: Partial<ServerOptions>, ...headers: string[]) => sendLines(options, ['GET /healthz HTTP/1.1', ...headers]);

describe('the Host header', () => {
  it.each([
    'localhost',
    'LOCALHOST:8484',
    'localhost.',
    '127.0.0.1:1',
    '10.2.3.4',
    '[::1]:8484',
    '[2001:db8::5]',
    'jobs.example.com',
    'Jobs.Example.com:443',
  ])('is a name of the server: %s', async (host) => {
    expect(await get({ allowedHosts: ['jobs.example.com'] }, `Host: ${host}`)).toMatchObject({ status: 200 });
  });

  it.each([
    'rebound.example',
    'localhost.rebound.example',
    'jobs.example.com.rebound.example',
    '127.0.0.1.rebound.example:8484',
    '1.2.3',
    '0x7f.1',
    '[::1',
    'user@localhost',
    'localhost/path',
    '..',
    '.',
    '__proto__',
  ])('of another site is refused, and the setting is named: %s', async (host) => {
    const { status, text } = await get({ allowedHosts: ['jobs.example.com'] }, `Host: ${host}`);
    expect(status).toBe(400);
    expect(text).toMatch(/UNKNOWN_HOST|INVALID_REQUEST/);
    expect(text).toContain('server.allowed_hosts');
  });

  it('is not checked when every name is allowed', async () => {
    expect(await get({ allowedHosts: ['*'] }, 'Host: anything.example')).toMatchObject({ status: 200 });
  });

  it('may be absent before HTTP/1.1, as in the probes of some load balancers', async () => {
    expect(await sendLines({ trustProxy: 1 }, ['GET /healthz HTTP/1.0'])).toMatchObject({ status: 200 });
  });

  it('is checked on every path, also on those that do not exist', async () => {
    for (const path of ['/nowhere', '/docs', '/openapi.json', '/test/echo', '/metrics']) {
      const { status, text } = await sendLines({}, [`GET ${path} HTTP/1.1`, 'Host: rebound.example']);
      expect({ path, status }).toEqual({ path, status: 400 });
      expect(text).not.toContain('swagger');
    }
  });

  it('still refuses unknown names after more allowed ones than it remembers', async () => {
    const { port } = await serve();
    const socket = await dial(port);
    const hosts = [...Array.from({ length: 300 }, (_, n) => `10.0.${n >> 8}.${n & 255}`), 'rebound.example', '10.9.9.9'];
    for (const host of hosts) socket.write(`GET /healthz HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
    const statuses = () => [...socket.received().matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status);
    await until('every request has a response', () => statuses().length === hosts.length);
    expect(statuses().slice(-3)).toEqual(['200', '400', '200']);
  });

  it('that a trusted proxy forwards is checked as well', async () => {
    const host = 'Host: 127.0.0.1';
    expect(await get({ trustProxy: 1 }, host, 'X-Forwarded-Host: rebound.example')).toMatchObject({ status: 400 });
    expect(await get({ trustProxy: ['127.0.0.1'] }, 'Host: rebound.example', 'X-Forwarded-Host: localhost')).toMatchObject({ status: 400 });
    expect(await get({ trustProxy: ['10.0.0.1'] }, host, 'X-Forwarded-Host: rebound.example')).toMatchObject({ status: 200 });
    const known = { trustProxy: 1, allowedHosts: ['jobs.example.com'] };
    expect(await get(known, host, 'X-Forwarded-Host: jobs.example.com')).toMatchObject({ status: 200 });
  });
});

describe('a header that identifies the caller', () => {
  it.each([
    ['Host: 127.0.0.1', 'Host: 127.0.0.1'],
    ['Host: 127.0.0.1', 'hOST: rebound.example'],
    ['Host: 127.0.0.1', 'Authorization: Bearer good', 'Authorization: Bearer good'],
    ['Host: 127.0.0.1', 'Authorization: Bearer good', 'AUTHORIZATION: Bearer bad'],
  ])('must not come twice: %s, %s, %s', async (...headers) => {
    const { status, text } = await get({}, ...headers);
    expect(status).toBe(400);
    expect(text).toContain('more than one Host or Authorization header');
  });
});

describe('a request that a web page sends', () => {
  const URL_OF_PAGE = 'https://app.example';
  const ask = async (headers: Record<string, string>, { method = 'GET', path = '/healthz', ...options }: Asked = {}) => {
    const { url } = await serve(options);
    const answer = await fetch(`${url}${path}`, { method, headers });
    return { status: answer.status, body: await bodyOf(answer) };
  };
  type Asked = Partial<ServerOptions> & { method?: string; path?: string };

  it.each([
    ['of another site', { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'no-cors' }],
    ['of another origin of the site, such as another port', { 'sec-fetch-site': 'same-site' }],
    ['of a relation that nobody knows yet', { 'sec-fetch-site': 'near-site' }],
    ['of another site, to plain HTTP', { origin: 'http://app.example' }],
    ['without an origin of its own', { origin: 'null' }],
    ['of an origin that begins like an allowed one', { origin: `${URL_OF_PAGE}.evil`, 'sec-fetch-site': 'cross-site' }],
  ])('is refused: %s', async (_what, headers) => {
    for (const [method, path] of [
      ['GET', '/healthz'],
      ['GET', '/nowhere'],
      ['POST', '/test/echo'],
    ] as const) {
      const { status, body } = await ask(headers, { method, path, corsOrigins: [URL_OF_PAGE] });
      expect({ path, status }).toEqual({ path, status: 403 });
      expect(body.code).toBe('FORBIDDEN');
      expect(body.details?.[0]).toMatchObject({ field: 'origin', code: 'CROSS_SITE' });
      expect(body.details?.[0].message).toContain('server.cors_origins');
    }
  });

  it('is refused as a form that another site submits', async () => {
    const form = ['Sec-Fetch-Site: cross-site', 'Sec-Fetch-Mode: navigate', 'Sec-Fetch-Dest: document'];
    const lines = ['POST /test/echo HTTP/1.1', 'Host: localhost', 'Content-Length: 0', ...form];
    expect(await sendLines({}, lines)).toMatchObject({ status: 403 });
  });

  it.each([
    ['of this server', { 'sec-fetch-site': 'same-origin' }],
    ['typed into the address bar', { 'sec-fetch-site': 'none' }],
    ['of a listed origin', { 'sec-fetch-site': 'cross-site', origin: URL_OF_PAGE }],
    ['of a listed origin, to plain HTTP', { origin: URL_OF_PAGE }],
  ])('is allowed: %s', async (_what, headers) => {
    expect((await ask(headers, { corsOrigins: [URL_OF_PAGE] })).status).toBe(200);
  });

  it('is allowed as a link to a page', async () => {
    const link = ['Sec-Fetch-Site: cross-site', 'Sec-Fetch-Mode: navigate', 'Sec-Fetch-Dest: document'];
    const lines = ['GET /docs HTTP/1.1', 'Host: localhost', ...link];
    expect(await sendLines({}, lines)).toMatchObject({ status: 200 });
    const frame = lines.map((line) => line.replace('document', 'iframe'));
    expect(await sendLines({}, frame)).toMatchObject({ status: 403 });
  });

  it('is allowed from this server over plain HTTP, where browsers send only the origin', async () => {
    const { url } = await serve({ trustProxy: 1, allowedHosts: ['jobs.lan'] });
    expect((await fetch(`${url}/healthz`, { headers: { origin: url } })).status).toBe(200);
    const behindProxy = { origin: 'https://jobs.lan', 'x-forwarded-host': 'jobs.lan' };
    expect((await fetch(`${url}/healthz`, { headers: behindProxy })).status).toBe(200);
    expect((await fetch(`${url}/healthz`, { headers: { origin: 'http://127.0.0.1:1' } })).status).toBe(403);
  });
});

describe('the address of a caller behind proxies', () => {
  const addressDoor = () => {
    const seen: string[] = [];
    const door = testDoor();
    const doors = [
      {
        ...door,
        register(http: Parameters<typeof door.register>[0]) {
          http.get('/address', async (request) => seen.push(request.ip));
        },
      },
    ];
    return { doors, seen };
  };
  const seenWith = async (trustProxy: ServerOptions['trustProxy'], forwarded: string) => {
    const { doors, seen } = addressDoor();
    const { url } = await serve({ trustProxy, doors });
    await fetch(`${url}/test/address`, { headers: { 'x-forwarded-for': forwarded } });
    return seen[0];
  };

  it.each([
    [false, '203.0.113.9, 198.51.100.7', '127.0.0.1'],
    [1, '203.0.113.9, 198.51.100.7', '198.51.100.7'],
    [2, '203.0.113.9, 198.51.100.7', '203.0.113.9'],
    [['127.0.0.1'], '203.0.113.9, 198.51.100.7', '198.51.100.7'],
    [['127.0.0.0/8', '198.51.100.0/24'], '203.0.113.9, 198.51.100.7', '203.0.113.9'],
    [['10.0.0.0/8'], '203.0.113.9, 198.51.100.7', '127.0.0.1'],
  ] as const)('with trust in %j, X-Forwarded-For "%s" names %s', async (trustProxy, forwarded, expected) => {
    expect(await seenWith(trustProxy, forwarded)).toBe(expected);
  });

  it('is not the leftmost one that the caller wrote, however many he wrote', async () => {
    const forged = Array.from({ length: 20 }, (_, n) => `192.0.2.${n}`).join(', ');
    expect(await seenWith(1, `${forged}, 198.51.100.7`)).toBe('198.51.100.7');
    expect(await seenWith(['127.0.0.1'], `127.0.0.1, ${forged}, 198.51.100.7`)).toBe('198.51.100.7');
  });
});
