import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { Gate } from '../library/fixture.ts';
import { until } from '../until.ts';
import { randomId, useQueue } from './queue-fixture.ts';

const queue = useQueue();

const jobs = (count: number, type = randomId()) => Array.from({ length: count }, (_, n) => ({ type, payload: { n } }));

test('a batch of several pieces is opened, filled, closed and counted exactly', async () => {
  const caller = await queue.caller();
  const opened = await caller.post('/batches');
  expect(opened).toMatchObject({ status: 201, body: { total: 0, submitted: false, done: false } });
  const { batch_id: id } = opened.body;
  expect(await caller.send('PUT', `/batches/${id}/parts/0`, { jobs: jobs(1_000) })).toMatchObject({
    status: 200,
    body: { batch_id: id, part: 0, jobs: 1_000 },
  });
  expect((await caller.send('PUT', `/batches/${id}/parts/1`, { jobs: jobs(3) })).status).toBe(200);
  const closed = await caller.post(`/batches/${id}/close`);
  expect(closed).toMatchObject({ status: 200, body: { batch_id: id, total: 1_003, waiting: 1_003, submitted: true, done: false } });
  expect(closed.body.states).toMatchObject({ SCHEDULED: 1_003, COMPLETED: 0 });
  expect((await caller.get(`/batches/${id}`)).body).toEqual(closed.body);
});

test('counts follow the jobs, and the failures are listed in pages', async () => {
  const caller = await queue.caller();
  const gate = new Gate();
  const acting = [
    queue.acting(() => gate.pass()),
    queue.acting(() => ({ ok: true })),
    ...Array.from({ length: 3 }, () => ({ ...queue.acting(() => Promise.reject(new Error('broken'))), max_attempts: 1 })),
  ];
  const { batch_id: id } = (await caller.post('/batches')).body;
  await caller.send('PUT', `/batches/${id}/parts/0`, { jobs: acting });
  await caller.post(`/batches/${id}/close`);
  const read = async () => (await caller.get(`/batches/${id}`)).body;
  await until('one runs and the others have ended', async () => {
    const { running, completed, failed } = await read();
    return running === 1 && completed === 1 && failed === 3;
  });
  expect(await read()).toMatchObject({ total: 5, running: 1, completed: 1, failed: 3, waiting: 0, done: false });
  gate.open();
  await until('all have ended', async () => (await read()).done);
  const first = await caller.get(`/batches/${id}/failures`, { limit: '2' });
  expect(first.body.items).toMatchObject([{ state: 'DEAD_LETTER', error: { message: 'broken' } }, { state: 'DEAD_LETTER' }]);
  const second = await caller.get(`/batches/${id}/failures`, { limit: '2', cursor: first.body.next_cursor });
  expect(second.body).toMatchObject({ items: [{ state: 'DEAD_LETTER' }], next_cursor: null });
  const ids = [...first.body.items, ...second.body.items].map(({ job_id }: { job_id: string }) => job_id);
  expect(new Set(ids).size).toBe(3);
});

test('requests that are repeated change nothing, and other contents are refused', async () => {
  const caller = await queue.caller();
  const batch_id = randomUUID();
  expect((await caller.post('/batches', { batch_id })).status).toBe(201);
  expect((await caller.post('/batches', { batch_id: batch_id.toUpperCase() })).status).toBe(200);
  const piece = { jobs: jobs(5) };
  const put = (body: unknown, headers = {}) => caller.send('PUT', `/batches/${batch_id}/parts/0`, body, { headers });
  // A retry comes from another span.
  const all = await Promise.all(
    Array.from({ length: 6 }, (_, n) => put(piece, { traceparent: `00-4bf92f3577b34da6a3ce929d0e0e473${n}-00f067aa0ba902b7-01` })),
  );
  expect(all.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200, 200]);
  expect(await put({ jobs: jobs(5) })).toMatchObject({ status: 409, body: { code: 'CONFLICT' } });
  await caller.post(`/batches/${batch_id}/close`);
  expect((await caller.post(`/batches/${batch_id}/close`)).body).toMatchObject({ total: 5, submitted: true });
  expect((await put(piece)).status).toBe(200);
  const late = await caller.send('PUT', `/batches/${batch_id}/parts/1`, piece);
  expect(late).toMatchObject({ status: 409, body: { message: expect.stringContaining('accepts no more') } });
});

test('a piece with a job that is not valid is refused as a whole, and the error names the job', async () => {
  const caller = await queue.caller();
  const { batch_id: id } = (await caller.post('/batches')).body;
  const broken = { jobs: [...jobs(2), { type: '__proto__', payload: {} }] };
  const refused = await caller.send('PUT', `/batches/${id}/parts/0`, broken);
  expect(refused.status).toBe(400);
  expect(refused.body.details[0].field).toBe('jobs[2].type');
  expect((await caller.get(`/batches/${id}`)).body.total).toBe(0);
});

test.each([
  ['no jobs', 'parts/0', { jobs: [] }, 'jobs'],
  ['too many jobs', 'parts/0', { jobs: jobs(1_001, 'a') }, 'jobs'],
  ['jobs that are no list', 'parts/0', { jobs: {} }, 'jobs'],
  ['an unknown member', 'parts/0', { jobs: jobs(1, 'a'), constructor: 1 }, 'constructor'],
  ['a piece that is not atomic', 'parts/0', { jobs: jobs(1, 'a'), atomic: false }, 'atomic'],
  ['a number below zero', 'parts/-1', { jobs: jobs(1, 'a') }, 'part'],
  ['a number that is too large', 'parts/1000000', { jobs: jobs(1, 'a') }, 'part'],
  ['a number that is none', 'parts/__proto__', { jobs: jobs(1, 'a') }, 'part'],
])('%s: 400 that says what to correct', async (_, path, body, field) => {
  const caller = await queue.caller();
  const { batch_id: id } = (await caller.post('/batches')).body;
  const refused = await caller.send('PUT', `/batches/${id}/${path}`, body);
  expect(refused).toMatchObject({ status: 400, body: { details: [{ field }] } });
});

test('other orgs and other projects cannot see, fill, close or take a batch', async () => {
  const org = await queue.caller();
  const [own, other] = [await org.inProject(randomUUID()), await org.inProject(randomUUID())];
  const { batch_id } = (await own.post('/batches')).body;
  const piece = { jobs: jobs(1) };
  await own.send('PUT', `/batches/${batch_id}/parts/0`, piece);
  for (const stranger of [other, await queue.caller()]) {
    const answers = [
      await stranger.get(`/batches/${batch_id}`),
      await stranger.get(`/batches/${batch_id}/failures`),
      await stranger.send('PUT', `/batches/${batch_id}/parts/1`, piece),
      await stranger.post(`/batches/${batch_id}/close`),
    ];
    expect(answers.map(({ status }) => status)).toEqual([404, 404, 404, 404]);
    expect((await stranger.post('/batches', { batch_id })).status).toBe(409);
  }
  expect((await org.get(`/batches/${batch_id}`)).body).toMatchObject({ total: 1, submitted: false });
  expect((await (await org.with('jobs:read')).post(`/batches/${batch_id}/close`)).status).toBe(403);
});
