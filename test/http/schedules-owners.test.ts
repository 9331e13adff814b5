import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { type Caller, useQueue } from './queue-fixture.ts';

const queue = useQueue();

const NIGHTLY = { cron: '30 2 * * *', type: 'report', payload: {} };

/** Every call that concerns one schedule, and the scopes that it needs. */
const CALLS: [string, (by: Caller, key: string) => Promise<{ status: number; body: { code?: string } }>, 'jobs:read' | 'jobs:write'][] = [
  ['GET', (by, key) => by.get(`/schedules/${key}`), 'jobs:read'],
  ['GET next', (by, key) => by.get(`/schedules/${key}/next`), 'jobs:read'],
  ['PATCH', (by, key) => by.patch(`/schedules/${key}`, { paused: true }), 'jobs:write'],
  ['POST run', (by, key) => by.post(`/schedules/${key}/run`), 'jobs:write'],
  ['DELETE', (by, key) => by.send('DELETE', `/schedules/${key}`), 'jobs:write'],
];

const keysOf = async (by: Caller): Promise<string[]> => (await by.get('/schedules')).body.items.map(({ key }: { key: string }) => key);

describe('the schedule of another org', () => {
  it.each(CALLS)('is not there for %s, and stays as it is', async (_name, call) => {
    const [ada, bob] = [await queue.caller(), await queue.caller()];
    const { body: before } = await ada.post('/schedules', { key: 'nightly', ...NIGHTLY });
    const { status, body } = await call(bob, 'nightly');
    expect([status, body.code]).toEqual([404, 'NOT_FOUND']);
    expect((await ada.get('/schedules/nightly')).body).toEqual(before);
    expect(await keysOf(bob)).toEqual([]);
  });

  it('may have the same key', async () => {
    const [ada, bob] = [await queue.caller(), await queue.caller()];
    for (const by of [ada, bob]) expect((await by.post('/schedules', { key: 'same', ...NIGHTLY })).status).toBe(201);
    await bob.send('PUT', '/schedules/same', { ...NIGHTLY, payload: { of: 'bob' } });
    expect((await ada.get('/schedules/same')).body.payload).toEqual({});
  });

  it('is not reached by the cursor of a list', async () => {
    const [ada, bob] = [await queue.caller(), await queue.caller()];
    for (const key of ['a', 'b']) await ada.post('/schedules', { key, ...NIGHTLY });
    const { next_cursor: cursor } = (await ada.get('/schedules', { limit: '1' })).body;
    const { status, body } = await bob.get('/schedules', { cursor });
    expect([status, body.details[0].code]).toEqual([400, 'INVALID_CURSOR']);
  });
});

describe('a key of a project', () => {
  const twoProjects = async () => {
    const org = await queue.caller();
    const [one, two] = [randomUUID(), randomUUID()];
    return { org, one, two, inOne: await org.inProject(one), inTwo: await org.inProject(two) };
  };

  it('gives its schedules and their jobs its project, and lists no others', async () => {
    const { org, one, inOne, inTwo } = await twoProjects();
    const { body } = await inOne.post('/schedules', { key: 'one', ...NIGHTLY });
    expect(body.project_id).toBe(one);
    await inTwo.post('/schedules', { key: 'two', ...NIGHTLY });
    await org.post('/schedules', { key: 'none', ...NIGHTLY });
    expect(await keysOf(inOne)).toEqual(['one']);
    expect(await keysOf(inTwo)).toEqual(['two']);
    expect(await keysOf(org)).toEqual(['none', 'one', 'two']);
    const { body: run } = await inOne.post('/schedules/one/run');
    expect((await inOne.get(`/jobs/${run.job_id}`)).body.project_id).toBe(one);
    expect((await inTwo.get(`/jobs/${run.job_id}`)).status).toBe(404);
  });

  it.each(CALLS)('does not find the schedules of another project, or of none, for %s', async (_name, call) => {
    const { org, inOne, inTwo } = await twoProjects();
    await inOne.post('/schedules', { key: 'one', ...NIGHTLY });
    await org.post('/schedules', { key: 'none', ...NIGHTLY });
    for (const key of ['one', 'none']) expect([key, (await call(inTwo, key)).status]).toEqual([key, 404]);
    expect((await call(inOne, 'one')).status).toBeLessThan(300);
    expect((await call(org, 'none')).status).toBeLessThan(300);
  });

  it('neither creates nor replaces a schedule with a key that another project uses', async () => {
    const { org, inOne, inTwo } = await twoProjects();
    const { body: before } = await inOne.post('/schedules', { key: 'one', ...NIGHTLY });
    expect((await inTwo.post('/schedules', { key: 'one', ...NIGHTLY })).status).toBe(409);
    const put = await inTwo.send('PUT', '/schedules/one', { ...NIGHTLY, payload: { of: 'two' } });
    expect([put.status, put.body.code]).toEqual([409, 'CONFLICT']);
    expect((await org.get('/schedules/one')).body).toEqual(before);
  });

  it('cannot name another project', async () => {
    const { two, inOne } = await twoProjects();
    expect((await inOne.post('/schedules', { key: 'one', ...NIGHTLY, project_id: two })).status).toBe(403);
    await inOne.post('/schedules', { key: 'one', ...NIGHTLY });
    expect((await inOne.patch('/schedules/one', { project_id: two })).status).toBe(403);
    expect((await inOne.patch('/schedules/one', { project_id: null, paused: true })).body.project_id).not.toBeNull();
  });

  it('has lists of its own: the cursor of another project is refused', async () => {
    const { org, inOne } = await twoProjects();
    for (const key of ['a', 'b']) await inOne.post('/schedules', { key, ...NIGHTLY });
    const { next_cursor: cursor } = (await inOne.get('/schedules', { limit: '1' })).body;
    expect((await org.get('/schedules', { cursor })).status).toBe(400);
    expect((await inOne.get('/schedules', { cursor })).status).toBe(200);
  });
});

describe('a key without the scope', () => {
  it.each(CALLS)('is refused for %s', async (_name, call, scope) => {
    const org = await queue.caller();
    await org.post('/schedules', { key: 'nightly', ...NIGHTLY });
    const other = await org.with(scope === 'jobs:read' ? 'jobs:write' : 'jobs:read');
    expect((await call(other, 'nightly')).status).toBe(403);
    expect((await call(queue.nobody(), 'nightly')).status).toBe(401);
    expect((await call(await org.with(scope), 'nightly')).status).toBeLessThan(300);
  });

  it('is refused for lists, new schedules and replacements', async () => {
    const org = await queue.caller();
    const [reader, writer] = [await org.with('jobs:read'), await org.with('jobs:write')];
    expect((await writer.get('/schedules')).status).toBe(403);
    expect((await reader.post('/schedules', { key: 'a', ...NIGHTLY })).status).toBe(403);
    expect((await reader.send('PUT', '/schedules/a', NIGHTLY)).status).toBe(403);
  });

  it('needs another one for critical jobs', async () => {
    const writer = await (await queue.caller()).with('jobs:write');
    for (const members of [{ priority: 'CRITICAL' }, { queue: 'q:critical' }])
      expect((await writer.post('/schedules', { key: 'a', ...NIGHTLY, ...members })).status).toBe(403);
    await writer.post('/schedules', { key: 'a', ...NIGHTLY });
    expect((await writer.patch('/schedules/a', { priority: 'CRITICAL' })).status).toBe(403);
  });
});

describe('an org', () => {
  it('may have a thousand schedules, and replace them then', async () => {
    const org = await queue.caller();
    await queue.ledger.db.api.query(
      `INSERT INTO millrace.schedules (org_id, key, cron, time_zone, missed, submission, next_at, created_at)
       SELECT $1, 'k' || n, '@daily', 'UTC', 'one', '{"type":"t","payload":{}}', now() + interval '1 day', now() FROM generate_series(1, 1000) n`,
      [org.orgId],
    );
    for (const { status, body } of [
      await org.post('/schedules', { key: 'more', ...NIGHTLY }),
      await org.send('PUT', '/schedules/more', NIGHTLY),
    ])
      expect([status, body.quota.limit, body.quota.maximum]).toEqual([429, 'org_schedules', 1_000]);
    expect((await org.send('PUT', '/schedules/k1', NIGHTLY)).status).toBe(200);
    expect((await org.post('/schedules', { key: 'k1', ...NIGHTLY })).status).toBe(409);
  });
});
