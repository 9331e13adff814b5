import { afterEach, describe, expect, test } from 'vitest';
import { makeCertificate } from './certificates.ts';
import { localEgress, namesOf, request } from './local-egress.ts';
import { answerWith, type Origin, openOrigin, type Seen } from './origin.ts';

let origins: Origin[] = [];
afterEach(async () => {
  await Promise.all(origins.map((origin) => origin.close()));
  origins = [];
});

/** `/<status>?<location>` redirects there; everything else says ok. */
async function serving(tls?: object): Promise<Origin> {
  const origin = await openOrigin(
    ({ path }) => {
      const [, status, location] = /^\/(\d{3})\?(.*)$/.exec(path) ?? [];
      return status === undefined ? answerWith(200, {}, 'ok') : answerWith(Number(status), { location: decodeURIComponent(location!) });
    },
    { tls },
  );
  origins.push(origin);
  return origin;
}

function redirecting(origin: Origin, status: number, location: string): string {
  return `http://127.0.0.1:${origin.port}/${status}?${encodeURIComponent(location)}`;
}

const SECRETS = { authorization: 'Bearer x', cookie: 'a=b', 'content-type': 'text/plain', 'x-kept': 'yes' };

function namesSent(seen: Seen | undefined): string[] {
  const sent = seen?.headers.toLowerCase() ?? '';
  return Object.keys(SECRETS).filter((name) => sent.includes(`\r\n${name}:`) || sent.startsWith(`${name}:`));
}

describe('following', () => {
  test('is off unless asked for', async () => {
    const origin = await serving();
    const url = redirecting(origin, 302, '/there');
    expect(await localEgress().fetch(request(url))).toMatchObject({ kind: 'answered', status: 302, hops: 0 });
    expect(origin.seen()).toHaveLength(1);
  });

  test.each([301, 302, 303, 307, 308])('goes on with status %i', async (status) => {
    const origin = await serving();
    const answer = await localEgress().fetch(request(redirecting(origin, status, '/there?a=b#c'), { redirects: 1 }));
    expect(answer).toMatchObject({
      kind: 'answered',
      status: 200,
      hops: 1,
      url: `http://127.0.0.1:${origin.port}/there?a=b`,
    });
    expect(origin.accepted()).toBe(2);
  });

  test.each([300, 304, 305])('does not go on with status %i', async (status) => {
    const origin = await serving();
    const answer = await localEgress().fetch(request(redirecting(origin, status, '/there'), { redirects: 1 }));
    expect(answer).toMatchObject({ kind: 'answered', status, hops: 0 });
  });

  test('understands relative addresses, spaces and letters beyond ASCII', async () => {
    const origin = await serving();
    await localEgress().fetch(request(redirecting(origin, 302, 'sub/ä b'), { redirects: 1 }));
    await localEgress().fetch(request(redirecting(origin, 302, `//127.0.0.1:${origin.port}/x`), { redirects: 1 }));
    expect(
      origin
        .seen()
        .map(({ path }) => path)
        .filter((path) => !path.startsWith('/302')),
    ).toEqual(['/sub/%C3%A4%20b', '/x']);
  });

  test('ends at the number of hops allowed', async () => {
    const origin = await serving();
    const two = redirecting(origin, 302, redirecting(origin, 302, '/end'));
    expect(await localEgress().fetch(request(two, { redirects: 2 }))).toMatchObject({ kind: 'answered', hops: 2 });
    const seen = origin.seen().length;
    expect(await localEgress().fetch(request(two, { redirects: 1 }))).toMatchObject({ code: 'TOO_MANY_REDIRECTS' });
    expect(origin.seen()).toHaveLength(seen + 2);
  });

  test('a redirect to itself ends', async () => {
    const origin = await openOrigin(() => answerWith(302, { location: '/' }));
    origins.push(origin);
    const answer = await localEgress().fetch(request(`http://127.0.0.1:${origin.port}/`, { redirects: 5 }));
    expect(answer).toMatchObject({ kind: 'failed', code: 'TOO_MANY_REDIRECTS' });
    expect(origin.seen()).toHaveLength(6);
  });
});

describe('what is sent on', () => {
  test.each([
    [301, 'GET', ''],
    [302, 'GET', ''],
    [303, 'GET', ''],
    [307, 'POST', 'body'],
    [308, 'POST', 'body'],
  ])('a POST becomes, with status %i, a %s', async (status, method, body) => {
    const origin = await serving();
    const post = { method: 'POST', body: Buffer.from('body'), headers: SECRETS, redirects: 1 } as const;
    await localEgress().fetch(request(redirecting(origin, status, '/there'), post));
    expect(origin.seen()[1]).toMatchObject({ method, body });
    expect(namesSent(origin.seen()[1]).includes('content-type')).toBe(method === 'POST');
  });

  test('HEAD stays HEAD', async () => {
    const origin = await serving();
    await localEgress().fetch(request(redirecting(origin, 303, '/there'), { method: 'HEAD', redirects: 1 }));
    expect(origin.seen()[1]?.method).toBe('HEAD');
  });

  test('secrets stay with their origin', async () => {
    const [first, second] = [await serving(), await serving()];
    const rest = { headers: SECRETS, redirects: 1 };
    await localEgress().fetch(request(redirecting(first, 302, '/same'), rest));
    await localEgress().fetch(request(redirecting(first, 302, `http://127.0.0.1:${second.port}/other`), rest));
    expect(namesSent(first.seen()[1])).toEqual(['authorization', 'cookie', 'content-type', 'x-kept']);
    expect(namesSent(second.seen()[0])).toEqual(['content-type', 'x-kept']);
  });
});

describe('refusals', () => {
  test.each([
    ['ftp://example.com/', 'SCHEME'],
    ['http://user:pw@example.com/', 'CREDENTIALS'],
    ['http://10.0.0.1/', 'ADDRESS'],
    ['//10.0.0.1/', 'ADDRESS'],
    ['http://inside.test/', 'ADDRESS'],
    ['http://example.com:22/', 'PORT'],
    ['http:10.0.0.1', 'INVALID_URL'],
    ['/a\\b', 'INVALID_URL'],
    ['http://[::1', 'INVALID_URL'],
  ])('a redirect to %s is refused: %s', async (location, code) => {
    const origin = await serving();
    const egress = localEgress({ resolver: namesOf({ 'inside.test': ['10.0.0.1'] }) });
    const answer = await egress.fetch(request(redirecting(origin, 302, location), { redirects: 3 }));
    expect(answer).toMatchObject({ kind: 'refused', code });
    expect(origin.accepted()).toBe(1);
  });

  test('https is not left for http', async () => {
    const certificate = makeCertificate(['127.0.0.1']);
    const secure = await serving(certificate);
    const plain = await serving();
    const egress = localEgress({ tls: { ca: certificate.cert } });
    const down = redirecting(secure, 302, `http://127.0.0.1:${plain.port}/`).replace('http:', 'https:');
    expect(await egress.fetch(request(down, { redirects: 1 }))).toMatchObject({ kind: 'refused', code: 'SCHEME' });
    expect(plain.accepted()).toBe(0);
    const up = redirecting(plain, 302, `https://127.0.0.1:${secure.port}/`);
    expect(await egress.fetch(request(up, { redirects: 1 }))).toMatchObject({ kind: 'answered', status: 200 });
  });
});
