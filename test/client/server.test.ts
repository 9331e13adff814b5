import { expect, test } from 'vitest';
import { MillraceClient, NotFoundError, ValidationError } from '../../src/client/index.ts';
import { API_KEY_SCOPES } from '../../src/core/api-key.ts';
import { serveEvents } from '../http/events-fixture.ts';
import { randomId, useQueue } from '../http/queue-fixture.ts';
import { useLedger } from '../ledger/fixture.ts';
import { Gate } from '../library/fixture.ts';
import { caught } from './fixture.ts';

const queue = useQueue();
const ledger = useLedger();

async function connect(): Promise<MillraceClient> {
  const orgId = await queue.ledger.newOrg();
  return new MillraceClient({ baseUrl: queue.url, apiKey: await queue.keyOf(orgId, API_KEY_SCOPES) });
}

const act = (...given: Parameters<typeof queue.acting>) => queue.acting(...given) as { type: string; payload: Record<string, unknown> };

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
}

test('a job is submitted, waited for, and read with its result and history', async () => {
  const client = await connect();
  const { job_id, status } = await client.submit(act(() => ({ sent: 3 })));
  expect(status).toBe('ACCEPTED');
  const job = await client.waitFor(job_id, { timeout: 30_000 });
  expect(job).toMatchObject({ state: 'COMPLETED', result: { status: 'SUCCESS', output: { sent: 3 } } });
  const { history } = await client.get(job_id, { include_history: true });
  expect(history?.map(({ to_state }) => to_state)).toEqual(['SCHEDULED', 'RUNNING', 'COMPLETED']);
});

test('waitFor follows the stream of the job rather than asking again and again', async () => {
  const orgId = await queue.ledger.newOrg();
  const asked: string[] = [];
  const gate = new Gate();
  const watched: typeof fetch = (input, init) => {
    asked.push(String(input).replace(/.*\/jobs\/[^/?]*/, ''));
    if (String(input).endsWith('/events')) gate.open();
    return fetch(input, init);
  };
  const apiKey = await queue.keyOf(orgId, API_KEY_SCOPES);
  const client = new MillraceClient({ baseUrl: queue.url, apiKey, fetch: watched });
  const { job_id } = await client.submit(act(() => gate.pass()));
  asked.length = 0;
  expect(await client.waitFor(job_id)).toMatchObject({ state: 'COMPLETED' });
  expect(asked).toEqual(['?include_result=true', '/events', '?include_result=true']);
});

test('a submit sent twice with one key makes one job', async () => {
  const client = await connect();
  const submission = { type: 'never-run', payload: {}, idempotency_key: randomId() };
  const first = await client.submit(submission);
  const second = await client.submit(submission);
  expect(second).toMatchObject({ status: 'DUPLICATE', job_id: first.job_id, existing_job_id: first.job_id });
});

test('search goes through all pages, each job once', async () => {
  const client = await connect();
  const jobs = Array.from({ length: 7 }, (_, i) => ({ type: 'never-run', payload: { i } }));
  const { results, accepted } = await client.submitBatch({ jobs });
  expect(accepted).toBe(7);
  const found: string[] = [];
  for await (const job of client.search({ types: ['never-run'], limit: 3 })) found.push(job.job_id);
  expect(found).toEqual(results.map(({ job_id }) => job_id).toReversed());
  const page = await client.searchPage({ limit: 2 });
  expect(page).toMatchObject({ total_count: 7, has_more: true });
});

test('failures are read, searched, and retried', async () => {
  const client = await connect();
  const failing = () => {
    throw Object.assign(new Error('no such user'), { category: 'PERMANENT' });
  };
  const submission = { ...act(failing), max_attempts: 1 };
  const ids = [(await client.submit(submission)).job_id, (await client.submit(submission)).job_id];
  for (const id of ids) await client.waitFor(id);
  const details = await client.failure(ids[0] ?? '', { include_all_attempts: true });
  expect(details).toMatchObject({ job_id: ids[0], total_attempts: 1, failure: { message: 'no such user' } });
  const found: string[] = [];
  for await (const each of client.searchFailures({ pagination: { limit: 1 } })) found.push(each.job_id);
  expect(found.toSorted()).toEqual(ids.toSorted());
  expect(await client.retry(ids[0] ?? '', { reset_attempts: true })).toMatchObject({ status: 'QUEUED' });
  expect(await client.retry(crypto.randomUUID())).toMatchObject({ status: 'NOT_FOUND' });
});

test('a job is changed, explained, counted and cancelled', async () => {
  const client = await connect();
  const ids: string[] = [];
  for (let i = 0; i < 2; i++) ids.push((await client.submit({ type: 'never-run', payload: {} })).job_id);
  const [first = '', second = ''] = ids;
  expect(await client.update(first, { tags: { customer: 'acme' } })).toMatchObject({ tags: { customer: 'acme' } });
  expect(await client.explain(first)).toMatchObject({ job_id: first, state: 'SCHEDULED' });
  expect(await client.stats({ breakdown_by: ['TYPE', 'STATE'] })).toHaveProperty('by_type');
  expect(await client.cancel(first, { reason: 'twice' })).toMatchObject({ status: 'CANCELLED' });
  expect(await client.cancelMany({ job_ids: [first, second] })).toMatchObject({ cancelled: 1, skipped: 1 });
  expect(await client.cancel(crypto.randomUUID())).toMatchObject({ status: 'NOT_FOUND' });
});

test('what the server refuses is thrown as an error of its kind', async () => {
  const client = await connect();
  expect(await caught(client.submit({ type: '', payload: {} }))).toBeInstanceOf(ValidationError);
  expect(await caught(client.get(crypto.randomUUID()))).toBeInstanceOf(NotFoundError);
  const nobody = new MillraceClient({ baseUrl: queue.url, apiKey: 'mr_nobody' });
  expect(await caught(nobody.stats())).toMatchObject({ status: 401, code: 'UNAUTHORIZED' });
});

test('events are followed without a gap over a server that goes away and another that comes', async () => {
  const orgId = await ledger.newOrg();
  let server = await serveEvents(ledger);
  const moving: typeof fetch = (input, init) => fetch(String(input).replace('http://queue/queue/v1', server.url), init);
  const client = new MillraceClient({ baseUrl: 'http://queue', apiKey: orgId, fetch: moving });
  const done = await ledger.putJob('completed', { orgId });
  const history = await all(client.jobEvents(done.id));
  expect(history.map(({ event }) => event)).toEqual(['job.scheduled', 'job.running', 'job.completed']);
  const events = client.events({ lastEventId: history.at(-1)?.id, state: ['SCHEDULED'] });
  const next = async () => (await events.next()).value?.data.job_id;
  const before = await ledger.submitOne({ orgId });
  expect(await next()).toBe(before.id);
  await server.http.close();
  const meanwhile = await ledger.submitOne({ orgId });
  server = await serveEvents(ledger);
  const after = await ledger.submitOne({ orgId });
  expect([await next(), await next()]).toEqual([meanwhile.id, after.id]);
  await events.return();
});
