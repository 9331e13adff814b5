import { describe, expect, it } from 'vitest';
import { useQueue } from './queue-fixture.ts';

const queue = useQueue();

const NIGHTLY = { cron: '30 2 * * *', type: 'report', payload: {} };

const KEYS: [string, string][] = [
  ['a reserved name', '__proto__'],
  ['another reserved name', 'constructor'],
  ['a name of a route', 'run'],
  ['a slash', 'a/b'],
  ['a path', '../../jobs'],
  ['a query', 'a?limit=1#b'],
  ['an encoded slash', 'a%2Fb'],
  ['a percent sign', '100%'],
  ['spaces', ' a b '],
  ['line breaks', 'a\r\nb'],
  ['control characters', '\u0001\u001b[31m'],
  ['SQL', "'; DROP TABLE millrace.schedules; --"],
  ['a wildcard', '%_*'],
  ['right-to-left text', '\u202eevil'],
  ['an emoji', '🌾'],
  ['the longest key', '🌾'.repeat(100)],
  ['a long plain key', 'x'.repeat(200)],
];

describe('a key of a schedule', () => {
  it.each(KEYS)('with %s names its schedule on every route', async (_what, key) => {
    const caller = await queue.caller();
    const path = `/schedules/${encodeURIComponent(key)}`;
    expect((await caller.post('/schedules', { key, ...NIGHTLY })).status).toBe(201);
    expect((await caller.post('/schedules', { key, ...NIGHTLY })).status).toBe(409);
    expect((await caller.get(path)).body.key).toBe(key);
    expect((await caller.send('PUT', path, { ...NIGHTLY, key })).body.key).toBe(key);
    expect((await caller.patch(path, { paused: true })).body).toMatchObject({ key, paused: true });
    expect((await caller.get(`${path}/next`)).body.items).toHaveLength(10);
    const { status, body } = await caller.post(`${path}/run`);
    expect(status).toBe(202);
    expect((await caller.get('/schedules', { limit: '1' })).body.items[0]).toMatchObject({ key, last_job_id: body.job_id });
    expect((await caller.send('DELETE', path)).body.key).toBe(key);
    expect((await caller.get(path)).status).toBe(404);
  });

  it('continues a list after a long key with characters that JSON escapes', async () => {
    const caller = await queue.caller();
    const keys = ['\u0001'.repeat(199), '\u0001'.repeat(200)];
    for (const key of keys) expect((await caller.post('/schedules', { key, ...NIGHTLY })).status).toBe(201);
    const first = (await caller.get('/schedules', { limit: '1' })).body;
    const second = (await caller.get('/schedules', { limit: '1', cursor: first.next_cursor })).body;
    expect([...first.items, ...second.items].map(({ key }) => key).sort()).toEqual(keys);
  });

  it.each([
    ['nothing', ''],
    ['201 characters', 'x'.repeat(201)],
    ['a point', '.'],
    ['two points', '..'],
    ['the NUL character', 'a\0b'],
    ['half of a surrogate pair', 'a\ud83c'],
    ['a number', 5],
    ['null', null],
    ['a list', ['a']],
  ])('cannot be %s', async (_what, key) => {
    const { status, body } = await (await queue.caller()).post('/schedules', { key, ...NIGHTLY });
    expect([status, body.code]).toEqual([400, 'INVALID_REQUEST']);
  });

  it.each([['%00'], ['x'.repeat(201)], ['x'.repeat(2_400)]])('that no schedule can have, %s, is not found', async (key) => {
    const caller = await queue.caller();
    for (const answer of [
      await caller.get(`/schedules/${key}`),
      await caller.get(`/schedules/${key}/next`),
      await caller.patch(`/schedules/${key}`, { paused: true }),
      await caller.post(`/schedules/${key}/run`),
      await caller.send('DELETE', `/schedules/${key}`),
    ])
      expect([answer.status, answer.body.code]).toEqual([404, 'NOT_FOUND']);
    expect((await caller.send('PUT', `/schedules/${key}`, NIGHTLY)).status).toBe(400);
  });

  it('is quoted shortly when it is not found', async () => {
    const { body } = await (await queue.caller()).get(`/schedules/${'x'.repeat(2_000)}`);
    expect(body.message.length).toBeLessThan(200);
  });
});
