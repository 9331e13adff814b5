import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { MillraceClient, NotFoundError } from '../../src/client/index.ts';
import { API_KEY_SCOPES } from '../../src/core/api-key.ts';
import { randomId, useQueue } from '../http/queue-fixture.ts';
import { caught } from './fixture.ts';

const queue = useQueue();

async function connect(options: { fetch?: typeof fetch } = {}): Promise<MillraceClient> {
  const orgId = await queue.ledger.newOrg();
  return new MillraceClient({ baseUrl: queue.url, apiKey: await queue.keyOf(orgId, API_KEY_SCOPES), ...options });
}

test('an async source of any size becomes a batch that is awaited, with its failures', async () => {
  const client = await connect();
  const failing = queue.acting(() => Promise.reject(new Error('broken'))) as { type: string; payload: Record<string, unknown> };
  const quick = queue.acting(() => null) as { type: string; payload: Record<string, unknown> };
  async function* source() {
    for (let n = 0; n < 2_050; n++) yield n % 1_000 === 7 ? { ...failing, max_attempts: 1 } : quick;
  }
  const { batch_id, total, submitted } = await client.batches.submit(source());
  expect({ total, submitted }).toEqual({ total: 2_050, submitted: true });
  const seen: number[] = [];
  const done = await client.batches.waitFor(batch_id, { onProgress: ({ completed }) => seen.push(completed) });
  expect(done).toMatchObject({ completed: 2_047, failed: 3, done: true });
  expect(seen.at(-1)).toBe(2_047);
  const failures: string[] = [];
  for await (const { state } of client.batches.failures(batch_id)) failures.push(state);
  expect(failures).toEqual(['DEAD_LETTER', 'DEAD_LETTER', 'DEAD_LETTER']);
});

test('answers that get lost on the way submit no job twice', async () => {
  let requests = 0;
  const losing: typeof fetch = async (input, init) => {
    const response = await fetch(input, init);
    if (++requests % 2 === 1) {
      await response.arrayBuffer();
      throw new TypeError('the connection broke');
    }
    return response;
  };
  const client = await connect({ fetch: losing });
  const type = randomId();
  const { batch_id } = await client.batches.submit(Array.from({ length: 1_200 }, (_, n) => ({ type, payload: { n } })));
  expect(await client.batches.get(batch_id)).toMatchObject({ total: 1_200 });
  const found: string[] = [];
  for await (const { job_id } of client.search({ types: [type] })) found.push(job_id);
  expect(new Set(found).size).toBe(1_200);
});

test('the same jobs under the same id are submitted once, also after a crash in between', async () => {
  const client = await connect();
  const type = randomId();
  const jobs = Array.from({ length: 1_500 }, (_, n) => ({ type, payload: { n } }));
  const id = randomUUID();
  async function* dying() {
    yield* jobs.slice(0, 1_200);
    throw new Error('the submitter died');
  }
  expect(await caught(client.batches.submit(dying(), { id }))).toMatchObject({ message: 'the submitter died' });
  expect(await client.batches.get(id)).toMatchObject({ total: 1_000, submitted: false });
  expect(await client.batches.submit(jobs, { id })).toMatchObject({ total: 1_500, submitted: true });
});

test('a batch of another org does not exist, and a wait ends at its deadline', async () => {
  const client = await connect();
  const { batch_id } = await client.batches.submit([{ type: randomId(), payload: {} }]);
  expect(await caught((await connect()).batches.get(batch_id))).toBeInstanceOf(NotFoundError);
  expect(await caught(client.batches.waitFor(batch_id, { timeout: 20 }))).toMatchObject({ code: 'TIMED_OUT' });
});
