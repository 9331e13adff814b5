import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { AppError } from '../../src/core/errors.ts';
import type { Authenticator } from '../../src/http/shared/identity.ts';
import { createOrg } from '../../src/services/access/create-org.ts';
import { Caller, QUEUE, randomId, useQueue } from './queue-fixture.ts';

const queue = useQueue();

/** What a server answers whose keys are looked up like this. */
async function answerWith(authenticate: Authenticator['authenticate']) {
  const url = await queue.listen({ authenticator: { authenticate } });
  const response = await fetch(`${url}${QUEUE}/stats`, { headers: { authorization: 'Bearer any' } });
  const body = (await response.json()) as Record<string, unknown>;
  queue.contract.check({ method: 'GET', path: `${QUEUE}/stats`, sent: undefined, status: response.status, body });
  return { status: response.status, body, headers: response.headers };
}

describe('an error', () => {
  it('has a code, a message, details and the id of the request [GA-6.07..10]', async () => {
    const caller = await queue.caller();
    const { status, body, headers } = await caller.post('/jobs', { type: 'x' }, { 'x-request-id': 'trace-7' });
    expect(status).toBe(400);
    expect(Object.keys(body).sort()).toEqual(['code', 'details', 'message', 'request_id']);
    expect(body.code).toBe('INVALID_REQUEST');
    expect(body.message).toContain('payload');
    expect(body.details).toEqual([{ field: 'payload', code: 'REQUIRED', message: expect.any(String) }]);
    expect(body.request_id).toBe('trace-7');
    expect(headers.get('x-request-id')).toBe('trace-7');
  });

  it('gets a generated request id when the caller sends none [GA-6.10]', async () => {
    const caller = await queue.caller();
    const first = await caller.get(`/jobs/${randomUUID()}`);
    const second = await caller.get(`/jobs/${randomUUID()}`);
    expect(first.body.request_id).toBe(first.headers.get('x-request-id'));
    expect(first.body.request_id).not.toBe(second.body.request_id);
  });

  it.each([
    ['missing', {}],
    ['no key at all', { authorization: 'Bearer nonsense' }],
    ['of another scheme', { authorization: 'Basic dXNlcjpwYXNz' }],
  ])('UNAUTHORIZED is 401: the key is %s [GA-6.18]', async (_what, headers) => {
    const { status, body } = await queue.nobody().post('/jobs/search', {}, headers as Record<string, string>);
    expect([status, body.code]).toEqual([401, 'UNAUTHORIZED']);
  });

  it('FORBIDDEN is 403: the key lacks the scope [GA-6.19]', async () => {
    const reader = await (await queue.caller()).with('jobs:read');
    const { status, body } = await reader.post('/jobs', { type: 'x', payload: {} });
    expect([status, body.code]).toEqual([403, 'FORBIDDEN']);
    expect(body.message).toContain('jobs:write');
  });

  it('NOT_FOUND is 404, also for an address that is none [GA-6.14]', async () => {
    const caller = await queue.caller();
    const { status, body } = await caller.get(`/jobs/${randomUUID()}`);
    expect([status, body.code]).toEqual([404, 'NOT_FOUND']);
    const nowhere = await fetch(`${queue.url}${QUEUE}/nowhere`);
    expect(nowhere.status).toBe(404);
    expect(await nowhere.json()).toMatchObject({ code: 'NOT_FOUND', details: [], request_id: expect.any(String) });
  });

  it('QUOTA_EXCEEDED is 429 and says which limit, how much of it is used, and when to come back [GA-1.31..34] [GA-6.17]', async () => {
    const { id } = await createOrg(queue.ledger.db, { slug: `slow-${randomId()}`, requestsPerMinute: 2 });
    const caller = new Caller(queue, id, await queue.keyOf(id, ['jobs:read']));
    for (let n = 0; n < 2; n++) expect((await caller.get('/stats')).status).toBe(200);
    let refused = await caller.get('/stats');
    // The minute may turn between two requests; then the third is the first of the next.
    for (let more = 0; more < 2 && refused.status === 200; more++) refused = await caller.get('/stats');
    expect(refused.status).toBe(429);
    expect(refused.body.code).toBe('QUOTA_EXCEEDED');
    const { quota } = refused.body;
    expect(quota).toMatchObject({ limit: 'requests_per_minute', maximum: 2, current: 2 });
    expect(quota.retry_after).toMatch(/^PT(?:1M|\d+S)$/);
    const seconds = quota.retry_after === 'PT1M' ? 60 : Number(/\d+/.exec(quota.retry_after)?.[0]);
    expect(Number(refused.headers.get('retry-after'))).toBe(seconds);
  });

  it('INTERNAL_ERROR is 500 and tells nothing of its cause [GA-6.20]', async () => {
    const { status, body } = await answerWith(async () => {
      throw new Error('password of db-7 is hunter2');
    });
    expect(status).toBe(500);
    expect(body).toMatchObject({ code: 'INTERNAL_ERROR', details: [], request_id: expect.any(String) });
    expect(JSON.stringify(body)).not.toContain('hunter2');
  });

  it('UNAVAILABLE is 503 with a time to come back', async () => {
    const { status, body, headers } = await answerWith(async () => {
      throw new AppError('UNAVAILABLE', { retryAfterMs: 1_500 });
    });
    expect([status, body.code, headers.get('retry-after')]).toEqual([503, 'UNAVAILABLE', '2']);
  });
});
