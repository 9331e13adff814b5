import { expect, test } from 'vitest';
import { ApiError, MillraceClient, NotFoundError } from '../../src/client/index.ts';
import { sha256Of, useArtifacts } from '../http/artifact-fixture.ts';
import { randomId } from '../http/queue-fixture.ts';
import { caught } from './fixture.ts';

const server = useArtifacts();

async function connect(options: { fetch?: typeof fetch } = {}) {
  const { caller, key } = await server.caller();
  return { caller, client: new MillraceClient({ baseUrl: server.queue.url, apiKey: key, ...options }) };
}

test.each([
  ['text', 'a,b\n1,2\n'],
  ['bytes', new TextEncoder().encode('a,b\n1,2\n')],
  ['a blob', new Blob(['a,b\n', '1,2\n'])],
])('%s become a file that is read whole, in part and by a link', async (_kind, content) => {
  const { client } = await connect();
  const stored = await client.artifacts.upload(content, { name: 'naïve "plan" (1).csv', contentType: 'text/csv' });
  expect(stored).toMatchObject({ name: 'naïve "plan" (1).csv', size: 8, sha256: sha256Of('a,b\n1,2\n'), content_type: 'text/csv' });
  expect(await client.artifacts.get(stored.artifact_id)).toEqual(stored);
  const whole = await client.artifacts.content(stored.artifact_id);
  expect([whole.headers.get('content-type'), await whole.text()]).toEqual(['text/csv', 'a,b\n1,2\n']);
  expect(await (await client.artifacts.content(stored.artifact_id, { start: 4 })).text()).toBe('1,2\n');
  expect(await (await client.artifacts.content(stored.artifact_id, { end: 2 })).text()).toBe('a,b');
  const { url } = await client.artifacts.link(stored.artifact_id, { expires_in: '1m' });
  expect(await (await fetch(url)).text()).toBe('a,b\n1,2\n');
});

test('the type of a blob is kept, and an import has its checksum', async () => {
  const { client } = await connect();
  const stored = await client.artifacts.upload(new Blob(['{}'], { type: 'application/json' }), { purpose: 'import', reason: 'a test' });
  expect(stored).toMatchObject({ name: 'artifact', content_type: 'application/json', purpose: 'import' });
});

test('the files of a job are listed, page after page', async () => {
  const { caller, client } = await connect();
  const jobId = await caller.act(async (context) => {
    for (const name of ['a', 'b', 'c']) await context.artifacts.write(name, name);
  });
  await caller.reached(jobId, 'COMPLETED');
  const names: string[] = [];
  for await (const { name } of client.artifacts.list(jobId, { limit: 2 })) names.push(name);
  expect(names).toEqual(['a', 'b', 'c']);
});

test('a file of another org, or none, is not found', async () => {
  const [{ client }, { client: stranger }] = [await connect(), await connect()];
  const { artifact_id: id } = await client.artifacts.upload('x');
  for (const read of [
    () => stranger.artifacts.get(id),
    () => stranger.artifacts.content(id),
    () => stranger.artifacts.link(id),
    () => client.artifacts.get('../../x'),
    () => client.artifacts.content(randomId()),
  ])
    expect(await caught(read())).toBeInstanceOf(NotFoundError);
  expect(await caught(client.artifacts.content(id, { start: 5 }))).toMatchObject({ status: 416, code: 'INVALID_REQUEST' });
});

test('an upload whose answer is lost is not repeated, and a read is', async () => {
  let calls = 0;
  const losing: typeof fetch = async (input, init) => {
    const response = await fetch(input, init);
    if (calls++ === 0) throw new TypeError('the connection was lost');
    return response;
  };
  const { caller, client } = await connect({ fetch: losing });
  const lost = await caught(client.artifacts.upload('x'));
  expect(lost).toBeInstanceOf(ApiError);
  expect(lost).toMatchObject({ code: 'NETWORK_ERROR' });
  const [row] = await server.rows(caller.orgId);
  calls = 0;
  expect(await (await client.artifacts.content(row?.id as string)).text()).toBe('x');
  expect(calls).toBe(2);
  expect(await server.rows(caller.orgId)).toHaveLength(1);
});

test('an aborted call ends with the reason of the caller', async () => {
  const { client } = await connect();
  const reason = new Error('not needed any more');
  expect(await caught(client.artifacts.content(randomId(), { signal: AbortSignal.abort(reason) }))).toBe(reason);
});
