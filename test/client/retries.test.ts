import { expect, onTestFinished, test, vi } from 'vitest';
import { ApiError, NotFoundError, QuotaError, ValidationError } from '../../src/client/index.ts';
import { ACCEPTED, answer, caught, scripted } from './fixture.ts';

const SUBMISSION = { type: 'email', payload: {} };

test.each([502, 503, 504])('a submit answered with %i is sent again with the same idempotency key', async (status) => {
  const { client, seen } = await scripted((response, _, nth) => (nth < 3 ? answer(response, status, {}) : answer(response, 202, ACCEPTED)));
  expect(await client.submit(SUBMISSION)).toEqual(ACCEPTED);
  const keys = seen.map(({ body }) => body.idempotency_key);
  expect(keys).toHaveLength(3);
  expect(new Set(keys).size).toBe(1);
  expect(keys[0]).toMatch(/^[0-9a-f-]{36}$/);
});

test('a submit whose answer was lost is sent again; the job of the first try counts as accepted', async () => {
  const { client, seen } = await scripted((response, _, nth) => {
    if (nth === 1) response.destroy();
    else answer(response, 200, { ...ACCEPTED, status: 'DUPLICATE', existing_job_id: 'j1' });
  });
  expect(await client.submit(SUBMISSION)).toEqual(ACCEPTED);
  expect(seen[1]?.body).toEqual(seen[0]?.body);
});

test('a submit gets its key also where there is no randomUUID, as in a page that came over plain http', async () => {
  const { client, seen } = await scripted((response) => answer(response, 202, ACCEPTED));
  vi.stubGlobal('crypto', { getRandomValues: crypto.getRandomValues.bind(crypto) });
  onTestFinished(() => {
    vi.unstubAllGlobals();
  });
  await client.submit(SUBMISSION);
  await client.submit(SUBMISSION);
  const keys = seen.map(({ body }) => body.idempotency_key);
  for (const key of keys) expect(key).toMatch(/^[0-9a-f]{32}$/);
  expect(keys[0]).not.toBe(keys[1]);
});

test('a key that the caller gives is sent as it is, and a repeat of it is said to be one', async () => {
  const duplicate = { ...ACCEPTED, status: 'DUPLICATE', existing_job_id: 'j1' };
  const { client, seen } = await scripted((response) => answer(response, 200, duplicate));
  expect(await client.submit({ ...SUBMISSION, idempotency_key: 'mine' })).toEqual(duplicate);
  expect(seen[0]?.body.idempotency_key).toBe('mine');
});

test('the jobs of a batch get a key each, the same on every try', async () => {
  const { client, seen } = await scripted((response, _, nth) =>
    nth === 1 ? answer(response, 503, {}) : answer(response, 200, { total: 3, accepted: 3, rejected: 0, results: [] }),
  );
  await client.submitBatch({ jobs: [SUBMISSION, { ...SUBMISSION, idempotency_key: 'mine' }, SUBMISSION] });
  const [first, second] = seen.map(({ body }) => body.jobs.map((job: { idempotency_key: string }) => job.idempotency_key));
  expect(second).toEqual(first);
  expect(new Set(first).size).toBe(3);
  expect(first[1]).toBe('mine');
});

test('a request over the rate waits as long as Retry-After says', async () => {
  const times: number[] = [];
  const { client } = await scripted((response, _, nth) => {
    times.push(performance.now());
    if (nth === 1) answer(response, 429, { code: 'QUOTA_EXCEEDED' }, { 'retry-after': '1' });
    else answer(response, 200, { job_id: 'j1' });
  });
  await client.get('j1');
  expect((times[1] ?? 0) - (times[0] ?? 0)).toBeGreaterThanOrEqual(990);
});

test('a manual retry is not repeated when its answer is lost: the job may run already', async () => {
  const { client, seen } = await scripted((response) => response.destroy());
  expect(await caught(client.retry('j1'))).toMatchObject({ code: 'NETWORK_ERROR', status: 0 });
  expect(seen).toHaveLength(1);
});

test('what cannot pass is not tried again', async () => {
  for (const status of [400, 401, 403, 404, 409, 500]) {
    const { client, seen } = await scripted((response) => answer(response, status, { code: 'X', message: 'no' }));
    expect(await caught(client.get('j1'))).toBeInstanceOf(ApiError);
    expect(seen).toHaveLength(1);
  }
});

test('it gives up after the retries it was given', async () => {
  const { client, seen } = await scripted((response) => answer(response, 503, { code: 'UNAVAILABLE' }), { retries: 1 });
  expect(await caught(client.stats())).toMatchObject({ status: 503, code: 'UNAVAILABLE' });
  expect(seen).toHaveLength(2);
});

test('a try takes no longer than its timeout', async () => {
  const { client, seen } = await scripted(() => {}, { timeout: 1_000, retries: 1 });
  expect(await caught(client.get('j1'))).toMatchObject({ code: 'TIMED_OUT', status: 0 });
  expect(seen).toHaveLength(2);
});

test('an abort ends the call at once with its own reason, while it waits for an answer and between tries', async () => {
  const silent = await scripted(() => abort.abort(new Error('enough')));
  let abort = new AbortController();
  await expect(silent.client.get('j1', {}, { signal: abort.signal })).rejects.toThrow('enough');
  const busy = await scripted((response) => {
    answer(response, 503, {}, { 'retry-after': '50' });
    setImmediate(() => abort.abort(new Error('enough')));
  });
  abort = new AbortController();
  await expect(busy.client.get('j1', {}, { signal: abort.signal })).rejects.toThrow('enough');
});

test('errors are typed, with code, details, status and the id of the request', async () => {
  const details = [{ field: 'type', code: 'REQUIRED', message: 'type is required' }];
  const quota = { limit: 'requests_per_minute', current: 600, maximum: 600, retry_after: 'PT1S' };
  const bodies: Record<number, object> = {
    400: { code: 'INVALID_REQUEST', message: 'type is required', details, request_id: 'r1' },
    404: { code: 'NOT_FOUND', message: 'no such job', details: [], request_id: 'r1' },
    409: { code: 'DUPLICATE', message: 'used', details: [], request_id: 'r1' },
    429: { code: 'QUOTA_EXCEEDED', message: 'slow down', details: [], request_id: 'r1', quota },
  };
  let status = 400;
  const headers = { 'retry-after': '7' };
  const { client } = await scripted((response) => answer(response, status, bodies[status], headers), { retries: 0 });
  const thrown = (next: number) => {
    status = next;
    return caught(client.get('j1'));
  };
  expect(await thrown(400)).toBeInstanceOf(ValidationError);
  expect(await thrown(400)).toMatchObject({ code: 'INVALID_REQUEST', details, requestId: 'r1', status: 400 });
  expect(await thrown(404)).toBeInstanceOf(NotFoundError);
  expect(await thrown(429)).toBeInstanceOf(QuotaError);
  expect(await thrown(429)).toMatchObject({ quota, retryAfterMs: 7_000, name: 'QuotaError' });
  expect(await thrown(409)).toMatchObject({ code: 'DUPLICATE', status: 409, name: 'ApiError' });
});

test('an answer that is no JSON, from a proxy for example, is an error that says so', async () => {
  const html = await scripted((response) => response.writeHead(200).end('<html>'), { retries: 0 });
  expect(await caught(html.client.get('j1'))).toMatchObject({ code: 'INVALID_ANSWER' });
  const proxy = await scripted((response) => response.writeHead(500, { 'x-request-id': 'r9' }).end('<html>'));
  expect(await caught(proxy.client.get('j1'))).toMatchObject({ code: 'HTTP_500', status: 500, requestId: 'r9' });
});

test('it takes a fetch of the caller, and does not call it as a method', async () => {
  const asked: string[] = [];
  const own = function (this: unknown, input: unknown) {
    expect(this).toBeUndefined();
    asked.push(String(input));
    return Promise.resolve(Response.json({ job_id: 'a/b' }));
  };
  const { client } = await scripted(() => {}, { fetch: own as typeof fetch, baseUrl: 'https://queue.example/base/' });
  await client.get('a/b', { include_result: true });
  expect(asked).toEqual(['https://queue.example/base/queue/v1/jobs/a%2Fb?include_result=true']);
});

test('a page with nothing on it and the same cursor is asked for again, after a while', async () => {
  const times: number[] = [];
  const { client, seen } = await scripted((response, _, nth) => {
    times.push(performance.now());
    const isLast = nth === 5;
    answer(response, 200, {
      jobs: isLast || nth === 1 ? [{ job_id: `j${nth}` }] : [],
      next_cursor: isLast ? null : 'c',
    });
  });
  const found: string[] = [];
  for await (const job of client.search({ limit: 1 })) found.push(job.job_id);
  expect(found).toEqual(['j1', 'j5']);
  expect(seen.map(({ body }) => body)).toEqual([{ limit: 1 }, ...Array(4).fill({ limit: 1, cursor: 'c' })]);
  expect((times[4] ?? 0) - (times[1] ?? 0)).toBeGreaterThanOrEqual(690);
});
