import { describe, expect, it } from 'vitest';
import { AppError, type ErrorCode } from '../../src/core/errors.ts';
import { bodyOf, post, serve, testDoor } from './server-fixture.ts';

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

describe('the request id', () => {
  it('is the one the caller sent, in the header and in the body of an error', async () => {
    const { url } = await serve();
    const answer = await fetch(`${url}/healthz`, { headers: { 'x-request-id': 'order-42:a.b_c' } });
    expect(answer.headers.get('x-request-id')).toBe('order-42:a.b_c');
    const missing = await fetch(`${url}/nowhere`, { headers: { 'x-request-id': 'order-43' } });
    expect(missing.headers.get('x-request-id')).toBe('order-43');
    expect((await bodyOf(missing)).request_id).toBe('order-43');
  });

  it.each(['', 'two words', 'x'.repeat(129), 'a;b', '<script>', 'é'])('is a new one instead of %j', async (given) => {
    const { url } = await serve();
    const answer = await fetch(`${url}/healthz`, { headers: { 'x-request-id': given } });
    expect(answer.headers.get('x-request-id')).toMatch(UUID);
  });

  it('differs from request to request', async () => {
    const { url } = await serve();
    const ids = await Promise.all([1, 2, 3].map(async () => (await fetch(`${url}/x`)).headers.get('x-request-id')));
    expect(new Set(ids).size).toBe(3);
  });
});

describe('an error', () => {
  const thrown = async (error: unknown) => {
    const faults: unknown[] = [];
    const doors = [testDoor({ error: () => error })];
    const { url } = await serve({ doors, onFault: (fault) => faults.push(fault.error) });
    const answer = await fetch(`${url}/test/throw`);
    return { answer, body: await bodyOf(answer), faults };
  };

  it.each<[ErrorCode, number]>([
    ['INVALID_REQUEST', 400],
    ['NOT_SERIALIZABLE', 400],
    ['UNAUTHORIZED', 401],
    ['FORBIDDEN', 403],
    ['NOT_FOUND', 404],
    ['CONFLICT', 409],
    ['DUPLICATE', 409],
    ['QUOTA_EXCEEDED', 429],
    ['UNAVAILABLE', 503],
    ['SHUTTING_DOWN', 503],
    ['TIMED_OUT', 503],
  ])('%s of the catalogue is answered with %i, in the words of the door', async (code, status) => {
    const { answer, body, faults } = await thrown(new AppError(code));
    expect(answer.status).toBe(status);
    expect(body).toEqual({ door: 'test', code, details: [], request_id: answer.headers.get('x-request-id') });
    expect(answer.headers.has('retry-after')).toBe(status === 429 || status === 503);
    expect(faults).toEqual([]);
  });

  it('that says when to come back says so in whole seconds', async () => {
    const { answer } = await thrown(new AppError('UNAVAILABLE', { retryAfterMs: 2_100 }));
    expect(answer.headers.get('retry-after')).toBe('3');
  });

  it.each([
    ['an Error', new Error('relation "secrets" does not exist')],
    ['a text', 'secrets'],
    ['nothing', undefined],
    ['null', null],
    ['an error of the program alone', new AppError('LEASE_LOST', { message: 'secrets' })],
    ['an error with a status', Object.assign(new Error('secrets'), { statusCode: 404 })],
    ['an error of PostgreSQL', Object.assign(new Error('secrets'), { code: '42P01' })],
  ])('that nobody expected is answered with 500 and not repeated: %s', async (_what, error) => {
    const { answer, body, faults } = await thrown(error);
    expect(answer.status).toBe(500);
    expect(body.code).toBe('INTERNAL_ERROR');
    expect(JSON.stringify(body)).not.toContain('secrets');
    expect(faults).toHaveLength(1);
  });

  it.each(['22P02', '22003', '54001'])('of PostgreSQL about a value is the caller’s: %s', async (code) => {
    const { answer, body } = await thrown(Object.assign(new Error('secrets'), { code }));
    expect({ status: answer.status, code: body.code }).toEqual({ status: 400, code: 'INVALID_REQUEST' });
    expect(JSON.stringify(body)).not.toContain('secrets');
  });

  it('without a door has the plain form', async () => {
    const { url } = await serve();
    const answer = await fetch(`${url}/nowhere?key=secret`);
    expect(answer.status).toBe(404);
    expect(answer.headers.get('content-type')).toBe('application/json; charset=utf-8');
    expect(await answer.json()).toEqual({
      code: 'NOT_FOUND',
      message: 'There is no GET /nowhere. /openapi.json lists every operation.',
      details: [],
      request_id: answer.headers.get('x-request-id'),
    });
  });

  it.each(['/test/nowhere', '/test', '/test/echo', '/test/%zz'])('below a prefix is in the words of its door: %s', async (path) => {
    const { url } = await serve();
    const answer = await fetch(`${url}${path}`);
    expect(answer.status).toBe(path === '/test/%zz' ? 400 : 404);
    expect((await bodyOf(answer)).door).toBe('test');
    expect(answer.headers.get('x-request-id')).toMatch(UUID);
  });

  it('outside of a known prefix is not', async () => {
    const { url } = await serve();
    expect((await bodyOf(await fetch(`${url}/testing`))).door).toBeUndefined();
  });
});

describe('a request that breaks the schema of its route', () => {
  const issuesOf = async (body: unknown) => {
    const { url } = await serve();
    const answer = await post(`${url}/test/orders`, JSON.stringify(body));
    return { status: answer.status, details: (await bodyOf(answer)).details };
  };
  const issue = (field: string, code: string, message: string) => ({ field, code, message });

  it.each([
    ['a member is missing', {}, issue('name', 'REQUIRED', 'name is required')],
    ['a wrong type', { name: 5 }, issue('name', 'INVALID_TYPE', 'name must be a string')],
    ['a number as text', { name: 'a', count: '3' }, issue('count', 'INVALID_TYPE', 'count must be an integer')],
    ['a number too small', { name: 'a', count: 0 }, issue('count', 'OUT_OF_RANGE', 'count must be >= 1')],
    ['a number too large', { name: 'a', count: 6 }, issue('count', 'OUT_OF_RANGE', 'count must be <= 5')],
    ['a text too short', { name: '' }, issue('name', 'TOO_SHORT', 'name must NOT have fewer than 1 characters')],
    ['a text too long', { name: 'x'.repeat(11) }, issue('name', 'TOO_LONG', 'name must NOT have more than 10 characters')],
    ['a word that is none', { name: 'a', kind: 'fast' }, issue('kind', 'INVALID_VALUE', 'kind must be one of FAST, SLOW')],
    ['neither text nor null', { name: 'a', note: 5 }, issue('note', 'INVALID_TYPE', 'note must be a string or null')],
    ['an unknown member', { name: 'a', cuont: 1 }, issue('cuont', 'UNKNOWN_MEMBER', 'cuont is not known (did you mean count?)')],
    [
      'something deep inside',
      { name: 'a', items: [{ id: 'i1' }, { id: 'x' }] },
      issue('items[1].id', 'INVALID_VALUE', 'items[1].id must match pattern "^i"'),
    ],
    ['no object at all', [], issue('body', 'INVALID_TYPE', 'body must be an object')],
    ['null', null, issue('body', 'INVALID_TYPE', 'body must be an object')],
  ])('is told which member and why: %s', async (_what, body, expected) => {
    expect(await issuesOf(body)).toEqual({ status: 400, details: [expected] });
  });

  it('lists its errors at once, up to twenty', async () => {
    const { details } = await issuesOf({ count: 9, kind: 'x' });
    expect(details.map(({ field }: { field: string }) => field)).toEqual(['name', 'count', 'kind']);
    const many = await issuesOf({ name: 'a', items: Array.from({ length: 500 }, () => ({ id: 'x' })) });
    expect(many.details).toHaveLength(20);
  });
});

describe('a query string', () => {
  it.each([
    ['limit=5&all=true', { limit: 5, all: true }],
    ['all=false', { all: false }],
    ['states=a&states=b', { states: ['a', 'b'] }],
    ['states=a,b', { states: ['a', 'b'] }],
    ['states=a', { states: ['a'] }],
    ['text=5', { text: '5' }],
  ])('%s is read as the schema says', async (query, expected) => {
    const { url } = await serve();
    expect(await (await fetch(`${url}/test/orders?${query}`)).json()).toEqual(expected);
  });

  it.each([
    ['limit=5x', 'limit', 'INVALID_TYPE'],
    ['limit=1e3', 'limit', 'INVALID_TYPE'],
    ['limit=', 'limit', 'INVALID_TYPE'],
    ['limit=1&limit=2', 'limit', 'INVALID_TYPE'],
    ['limit=0', 'limit', 'OUT_OF_RANGE'],
    ['all=yes', 'all', 'INVALID_TYPE'],
    ['text=a&text=b', 'text', 'INVALID_TYPE'],
    ['lmit=5', 'lmit', 'UNKNOWN_MEMBER'],
    ['__proto__=1', '__proto__', 'UNKNOWN_MEMBER'],
  ])('%s is refused', async (query, field, code) => {
    const { url } = await serve();
    const answer = await fetch(`${url}/test/orders?${query}`);
    expect({ status: answer.status, ...(await bodyOf(answer)).details[0] }).toMatchObject({ status: 400, field, code });
  });
});

describe('a route for keys', () => {
  it('is closed without one and open with one', async () => {
    const { url } = await serve();
    const path = `${url}/test/orders/3f2b8c1e-5d4a-4f6b-9c7d-8e9f0a1b2c3d`;
    expect((await fetch(path)).status).toBe(401);
    expect((await fetch(path, { headers: { authorization: 'Bearer good' } })).status).toBe(200);
  });
});

describe('pages of other origins', () => {
  const ask = async (origin: string, corsOrigins: string[], method = 'OPTIONS') => {
    const { url } = await serve({ corsOrigins });
    const headers = { origin, 'access-control-request-method': 'POST' };
    return fetch(`${url}/healthz`, { method, headers });
  };

  it('are not let in unless the configuration names them', async () => {
    for (const origins of [[], ['https://other.example']]) {
      const answer = await ask('https://app.example', origins);
      expect(answer.headers.has('access-control-allow-origin')).toBe(false);
      expect(answer.status).toBe(403);
    }
  });

  it('are let in when it does', async () => {
    const preflight = await ask('https://app.example', ['https://app.example']);
    expect(preflight.status).toBe(204);
    expect(preflight.headers.get('access-control-allow-origin')).toBe('https://app.example');
    expect(preflight.headers.get('access-control-allow-headers')).toContain('authorization');
    const read = await ask('https://app.example', ['https://app.example'], 'GET');
    expect(read.status).toBe(200);
    expect(read.headers.get('access-control-expose-headers')).toContain('x-request-id');
    expect(read.headers.get('vary')?.toLowerCase()).toBe('origin');
  });
});
