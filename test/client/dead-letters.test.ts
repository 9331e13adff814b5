import { expect, test } from 'vitest';
import { ApiError, MillraceClient, NotFoundError, type Operation } from '../../src/client/index.ts';
import { API_KEY_SCOPES } from '../../src/core/api-key.ts';
import { randomId, useQueue } from '../http/queue-fixture.ts';
import { caught } from './fixture.ts';

const queue = useQueue();

async function connect(options: { fetch?: typeof fetch } = {}): Promise<MillraceClient> {
  const orgId = await queue.ledger.newOrg();
  return new MillraceClient({ baseUrl: queue.url, apiKey: await queue.keyOf(orgId, API_KEY_SCOPES), ...options });
}

async function listed<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}

/** Submits jobs that die, and waits until they have. */
async function deadJobs(client: MillraceClient, count: number, fails: () => boolean): Promise<string[]> {
  const acting = queue.acting(() => (fails() ? Promise.reject(new Error('no such account')) : 'done')) as { type: string; payload: object };
  const jobs = Array.from({ length: count }, () => ({ ...acting, payload: { ...acting.payload }, max_attempts: 1 }));
  const { results } = await client.submitBatch({ jobs });
  const ids = results.map(({ job_id }) => job_id as string);
  for (const id of ids) await client.waitFor(id);
  return ids;
}

test('dead letters are listed, grouped, discarded, restored, replayed and fixed forward', async () => {
  const client = await connect();
  let isBroken = true;
  const [first, second] = (await deadJobs(client, 2, () => isBroken)) as [string, string];
  expect((await listed(client.deadLetters.list({ limit: 1 }))).map(({ job_id }) => job_id).sort()).toEqual([first, second].sort());
  const { items: groups } = await client.deadLetters.groups();
  expect(groups).toMatchObject([{ count: 2, message: 'no such account' }]);
  const fingerprint = groups[0]?.fingerprint as string;
  expect(await listed(client.deadLetters.list({ fingerprint }))).toHaveLength(2);
  expect(await client.deadLetters.get(first)).toMatchObject({ job_id: first, status: 'open', error: { message: 'no such account' } });
  expect(await client.deadLetters.discard(first, { reason: 'a test' })).toMatchObject({ status: 'discarded' });
  expect(await client.deadLetters.restore(first)).toMatchObject({ status: 'open' });
  isBroken = false;
  expect(await client.deadLetters.replay(first)).toMatchObject({ job_id: first });
  expect(await client.waitFor(first)).toMatchObject({ state: 'COMPLETED' });
  const fixed = await client.deadLetters.fixForward(second, { patch: [{ op: 'add', path: '/fixed', value: true }] });
  expect(fixed.replaces_job_id).toBe(second);
  expect(await client.waitFor(fixed.job_id)).toMatchObject({ state: 'COMPLETED' });
  expect(await caught(client.deadLetters.replay(first))).toMatchObject({ status: 409, code: 'CONFLICT' });
  expect(await caught(client.deadLetters.get(randomId()))).toBeInstanceOf(ApiError);
});

test('an operation is previewed, created once although its answer is lost, awaited and reported', async () => {
  let loses = false;
  const losing: typeof fetch = async (input, init) => {
    const response = await fetch(input, init);
    if (!loses || init?.method !== 'POST') return response;
    loses = false;
    await response.arrayBuffer();
    throw new TypeError('the connection broke');
  };
  const client = await connect({ fetch: losing });
  let isBroken = true;
  const ids = await deadJobs(client, 3, () => isBroken);
  isBroken = false;
  expect((await client.operations.preview({ action: 'replay', filter: {} })).matching).toBe(3);
  loses = true;
  expect(await caught(client.operations.create({ action: 'replay', filter: {}, rate: 1_000 }))).toMatchObject({ code: 'NETWORK_ERROR' });
  const [made, ...others] = await listed(client.operations.list());
  expect(others).toEqual([]);
  const seen: Operation[] = [];
  const done = await client.operations.waitFor(made?.operation_id as string, { onProgress: (operation) => seen.push(operation) });
  expect(done).toMatchObject({ state: 'completed', succeeded: 3, failed: 0 });
  expect(seen.at(-1)).toEqual(done);
  const items = await listed(client.operations.items(done.operation_id, { limit: 2 }));
  expect(items.map(({ job_id, result }) => [job_id, result]).sort()).toEqual(ids.map((id) => [id, 'succeeded']).sort());
});

test('an operation is paused, resumed, halted and stopped', async () => {
  const client = await connect();
  await deadJobs(client, 3, () => true);
  const { operation_id: id } = await client.operations.create({ action: 'replay', filter: {}, rate: 0.01, canary: 1 });
  expect(await client.operations.pause(id, { reason: 'a test' })).toMatchObject({ state: 'paused' });
  expect(await client.operations.get(id)).toMatchObject({ state: 'paused' });
  expect(await client.operations.resume(id)).toMatchObject({ state: 'canary' });
  expect(await client.operations.stop(id)).toMatchObject({ state: 'stopped' });
  const stopped = await client.operations.waitFor(id);
  expect(stopped.skipped + stopped.failed).toBe(3);
  const next = await client.operations.create({ action: 'replay', filter: {}, canary: 1, rate: 1_000 });
  // Nobody decides for the client whether to go on after a halt.
  expect(await client.operations.waitFor(next.operation_id)).toMatchObject({ state: 'halted', failed: 1 });
  expect(await client.operations.undo(next.operation_id)).toMatchObject({ state: 'stopped' });
  expect(await caught(client.operations.get('00000000-0000-4000-8000-00000000dead'))).toBeInstanceOf(NotFoundError);
});
