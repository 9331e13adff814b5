import type { ServerResponse } from 'node:http';
import { expect, test } from 'vitest';
import type { FollowedEvent, JobState } from '../../src/client/index.ts';
import { answer, caught, type Script, scripted } from './fixture.ts';

const textOf = (id: string, state: JobState) =>
  `id: ${id}\nevent: job.${state.toLowerCase()}\ndata: ${JSON.stringify({ job_id: 'j1', to_state: state })}\n\n`;

const farewell = (code: string) => `id: 9\nevent: error\ndata: ${JSON.stringify({ code, message: 'bye', last_event_id: '9' })}\n\n`;

function stream(response: ServerResponse, ...chunks: string[]): ServerResponse {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  for (const chunk of chunks) response.write(chunk);
  return response;
}

async function take(events: AsyncIterable<FollowedEvent>, count: number): Promise<string[]> {
  const taken: string[] = [];
  for await (const { id, data } of events) {
    taken.push(`${id} ${data.to_state}`);
    if (taken.length === count) break;
  }
  return taken;
}

test('a stream that breaks is opened again after the last event', async () => {
  const { client, seen } = await scripted((response, _, nth) => {
    if (nth === 1) stream(response, textOf('1', 'SCHEDULED'), textOf('2', 'RUNNING')).end();
    else if (nth === 2) response.destroy();
    else if (nth === 3) answer(response, 503, {});
    else stream(response, textOf('3', 'COMPLETED'));
  });
  expect(await take(client.events({ type: ['a', 'b'], state: ['RUNNING'] }), 3)).toEqual(['1 SCHEDULED', '2 RUNNING', '3 COMPLETED']);
  expect(seen.map(({ headers }) => headers['last-event-id'])).toEqual([undefined, '2', '2', '2']);
  expect(seen.map(({ url }) => url)).toEqual(Array(4).fill('/queue/v1/events?type=a&type=b&state=RUNNING'));
  expect(seen[0]?.headers).toMatchObject({ accept: 'text/event-stream', authorization: 'Bearer k' });
});

test('it goes on after the place a heartbeat names, and begins after the place it is given', async () => {
  const { client, seen } = await scripted((response, _, nth) => {
    if (nth === 1) stream(response, 'id: 5\n: heartbeat\n\n').end();
    else stream(response, textOf('6', 'RUNNING'));
  });
  expect(await take(client.events({ lastEventId: '4' }), 1)).toEqual(['6 RUNNING']);
  expect(seen.map(({ headers }) => headers['last-event-id'])).toEqual(['4', '5']);
});

test('a client that was too slow comes back where the server tells it to', async () => {
  const { client, seen } = await scripted((response, _, nth) => {
    if (nth === 1) stream(response, textOf('1', 'RUNNING'), farewell('SLOW_CONSUMER')).end();
    else stream(response, textOf('10', 'COMPLETED'));
  });
  expect(await take(client.events(), 2)).toEqual(['1 RUNNING', '10 COMPLETED']);
  expect(seen[1]?.headers['last-event-id']).toBe('9');
});

test.each<[string, Script]>([
  ['a refused key', (response) => answer(response, 401, { code: 'UNAUTHORIZED' })],
  ['a key revoked on the way', (response) => stream(response, farewell('FORBIDDEN')).end()],
  ['a request that is not valid', (response) => answer(response, 400, { code: 'INVALID_REQUEST' })],
])('%s ends it with the error', async (_, script) => {
  const { client, seen } = await scripted(script);
  expect(await caught(take(client.events(), 1))).toMatchObject({ code: expect.stringMatching(/UNAUTH|FORB|INVALID/) });
  expect(seen).toHaveLength(1);
});

test('events are read however their bytes are cut and their lines end', async () => {
  const text = textOf('1', 'RUNNING').replaceAll('\n', '\r\n') + textOf('2', 'COMPLETED').replaceAll('\n', '\r');
  const bytes = Buffer.from(`: grüße\n\n${text}`);
  const { client } = await scripted(async (response) => {
    stream(response);
    for (const byte of bytes) await new Promise<void>((resolve) => response.write(Buffer.of(byte), () => resolve()));
    response.write('\r\n');
  });
  expect(await take(client.events(), 2)).toEqual(['1 RUNNING', '2 COMPLETED']);
});

test('whoever stops reading closes the connection', async () => {
  const closed = Promise.withResolvers<void>();
  const { client } = await scripted((response) => {
    response.on('close', () => closed.resolve());
    stream(response, textOf('1', 'RUNNING'));
  });
  await take(client.events(), 1);
  await closed.promise;
  const abort = new AbortController();
  const waiting = caught(take(client.events({ signal: abort.signal }), 2));
  abort.abort(new Error('enough'));
  expect(await waiting).toMatchObject({ message: 'enough' });
});

test('the stream of a job is over after the event that ends the job, not where a connection ends', async () => {
  const { client, seen } = await scripted((response, _, nth) => {
    if (nth === 1) stream(response, textOf('1', 'RUNNING')).end();
    else stream(response, textOf('2', 'COMPLETED')).end();
  });
  expect(await take(client.jobEvents('j1'), 9)).toEqual(['1 RUNNING', '2 COMPLETED']);
  expect(seen.map(({ url }) => url)).toEqual(Array(2).fill('/queue/v1/jobs/j1/events'));
});

test('the stream of a job that has nothing more to tell is over at once', async () => {
  const { client } = await scripted((response) => response.writeHead(204).end());
  expect(await take(client.jobEvents('j1', { lastEventId: '3' }), 9)).toEqual([]);
});

test.each<[string, Script]>([
  ['there is no stream', (response) => answer(response, 404, { code: 'NOT_FOUND' })],
  ['there are too many streams', (response) => answer(response, 429, { code: 'QUOTA_EXCEEDED' })],
])('waitFor asks again and again where %s', async (_, script) => {
  let asked = 0;
  const { client } = await scripted((response, seen, nth) => {
    if (seen.url.endsWith('/events')) return script(response, seen, nth);
    asked++;
    answer(response, 200, { job_id: 'j1', state: asked < 3 ? 'RUNNING' : 'COMPLETED' });
  });
  expect(await client.waitFor('j1')).toMatchObject({ state: 'COMPLETED' });
  expect(asked).toBe(3);
});

test('waitFor gives up after its time, or when its caller has had enough', async () => {
  const { client } = await scripted((response, { url }) => {
    if (url.endsWith('/events')) stream(response, textOf('1', 'RUNNING'));
    else answer(response, 200, { job_id: 'j1', state: 'RUNNING' });
  });
  expect(await caught(client.waitFor('j1', { timeout: 50 }))).toMatchObject({ code: 'TIMED_OUT', status: 0 });
  const abort = new AbortController();
  const waiting = caught(client.waitFor('j1', { signal: abort.signal }));
  abort.abort(new Error('enough'));
  expect(await waiting).toMatchObject({ message: 'enough' });
});

test('with include, progress and lines come too, and a stream of one job ends although a line follows its last change', async () => {
  const progress = `event: job.progress\ndata: ${JSON.stringify({ job_id: 'j1', percent: 40 })}\n\n`;
  const line = (id: string) => `${id}event: job.log\ndata: ${JSON.stringify({ job_id: 'j1', message: 'late' })}\n\n`;
  const { client, seen } = await scripted((response, _, nth) => {
    if (nth === 1) stream(response, textOf('1', 'RUNNING'), progress, line('id: 1a\n')).end();
    else stream(response, progress, textOf('2', 'COMPLETED'), line('id: 2a\n')).end();
  });
  const taken: string[] = [];
  for await (const { id, event } of client.jobEvents('j1', { include: ['progress', 'log'] })) taken.push(`${id} ${event}`);
  expect(taken).toEqual(['1 job.running', 'null job.progress', '1a job.log', 'null job.progress', '2 job.completed', '2a job.log']);
  expect(seen.map(({ url }) => url)).toEqual(Array(2).fill('/queue/v1/jobs/j1/events?include=progress&include=log'));
  expect(seen[1]?.headers['last-event-id']).toBe('1a');
});
