import { describe, expect, it } from 'vitest';
import { AppError } from '../../src/core/errors.ts';
import { newProject } from '../ledger/new-project.ts';
import { until } from '../until.ts';
import { type Caller, useQueue } from './queue-fixture.ts';

const queue = useQueue();

const NIGHTLY = { cron: '30 2 * * *', time_zone: 'Europe/Berlin', type: 'report', payload: { region: 'north' } };
const HOUR_MS = 3_600_000;

const create = async (caller: Caller, members: object = {}) => {
  const { status, body } = await caller.post('/schedules', { key: 'nightly', ...NIGHTLY, ...members });
  expect([status, body]).toEqual([201, expect.anything()]);
  return body;
};

describe('a schedule over HTTP', () => {
  it('is created with its defaults, read, and listed', async () => {
    const caller = await queue.caller();
    const created = await create(caller);
    expect(created).toMatchObject({
      ...{ key: 'nightly', type: 'report', payload: { region: 'north' }, cron: '30 2 * * *', time_zone: 'Europe/Berlin' },
      ...{
        missed: 'one',
        overlap: 'queue',
        paused: false,
        last_at: null,
        last_job_id: null,
        skipped: 0,
        last_skipped_at: null,
        reason: null,
      },
      ...{ queue: null, priority: null, tags: null, project_id: null },
    });
    expect(Date.parse(created.next_at)).toBeGreaterThan(Date.parse(created.created_at));
    expect((await caller.get('/schedules/nightly')).body).toEqual(created);
    expect((await caller.get('/schedules')).body).toEqual({ items: [created], next_cursor: null });
  });

  it('keeps every member of its job that it was given', async () => {
    const caller = await queue.caller();
    const job = {
      ...{
        type: 'act',
        priority: 'LOW',
        queue: 'q:exports',
        tags: { a: 'b' },
        delay: 'PT5M',
        timeout: 60,
        lifetime: 'P2D',
        max_attempts: 7,
      },
      ...{ backoff: { strategy: 'LINEAR', initial_delay: 'PT2S' }, correlation_id: 'c', limit: { key: 'k', rate: 2, per: 'PT1S' } },
      ...{ callback_url: 'https://example.com/hook', category: 'maintenance', project_id: await newProject(queue.ledger.db, caller.orgId) },
    };
    expect(await create(caller, job)).toMatchObject(job);
    const { body } = await caller.post('/schedules/nightly/run');
    const made = (await caller.get(`/jobs/${body.job_id}`)).body;
    expect(made).toMatchObject({
      ...{ priority: 'LOW', queue: 'q:exports', tags: { a: 'b' }, max_attempts: 7, correlation_id: 'c', category: 'maintenance' },
      ...{ state: 'DELAYED', project_id: job.project_id, callback_url: job.callback_url, limit: { key: 'k', rate: 2 } },
    });
  });

  it('cannot be created twice, but replaced, which keeps the next run unless the time changes', async () => {
    const caller = await queue.caller();
    const created = await create(caller, { paused: true });
    const again = await caller.post('/schedules', { key: 'nightly', ...NIGHTLY });
    expect([again.status, again.body.code]).toEqual([409, 'CONFLICT']);
    expect(again.body.message).toContain('replace it with PUT');
    const put = await caller.send('PUT', '/schedules/nightly', { ...NIGHTLY, payload: { region: 'south' }, reason: 'moved' });
    expect(put.status).toBe(200);
    expect(put.body).toMatchObject({ payload: { region: 'south' }, paused: false, reason: 'moved', created_at: created.created_at });
    const other = await caller.send('PUT', '/schedules/nightly', { ...NIGHTLY, key: 'nightly', cron: '@daily' });
    expect(other.body.next_at).not.toBe(put.body.next_at);
    expect((await caller.send('PUT', '/schedules/new', NIGHTLY)).status).toBe(201);
    const wrong = await caller.send('PUT', '/schedules/new', { ...NIGHTLY, key: 'another' });
    expect([wrong.status, wrong.body.details[0].field]).toEqual([400, 'key']);
  });

  it('is changed member by member, and null resets one', async () => {
    const caller = await queue.caller();
    const { next_at } = await create(caller, { priority: 'LOW', tags: { a: 'b' }, missed: 'all', overlap: 'replace' });
    const paused = await caller.patch('/schedules/nightly', { paused: true, reason: 'the provider is down' });
    expect(paused.body).toMatchObject({ paused: true, next_at: null, priority: 'LOW', reason: 'the provider is down' });
    const changed = await caller.patch('/schedules/nightly', { payload: { region: 'east' }, priority: null, overlap: null });
    expect(changed.body).toMatchObject({ payload: { region: 'east' }, priority: null, tags: { a: 'b' }, overlap: 'queue', missed: 'all' });
    const resumed = await caller.patch('/schedules/nightly', { paused: false, time_zone: null });
    expect(resumed.body).toMatchObject({ paused: false, time_zone: 'UTC', cron: '30 2 * * *', reason: null });
    expect(resumed.body.next_at).not.toBe(next_at);
  });

  it('is deleted, and its jobs stay', async () => {
    const caller = await queue.caller();
    const created = await create(caller);
    const { body: run } = await caller.post('/schedules/nightly/run', { reason: 'a look' });
    const { status, body } = await caller.send('DELETE', '/schedules/nightly', { reason: 'not needed' });
    expect([status, body]).toEqual([200, { ...created, last_job_id: run.job_id, last_at: body.last_at }]);
    expect((await caller.get(`/jobs/${run.job_id}`)).status).toBe(200);
    const gone = await caller.send('DELETE', '/schedules/nightly');
    expect([gone.status, gone.body.code, gone.body.message]).toEqual([
      404,
      'NOT_FOUND',
      expect.stringContaining('"nightly" does not exist'),
    ]);
  });

  it('runs now, also while it is paused, and the handler knows the planned time', async () => {
    const caller = await queue.caller();
    const planned: (Date | null)[] = [];
    const { type, payload } = queue.acting((context) => void planned.push(context.plannedAt)) as { type: string; payload: object };
    await create(caller, { type, payload, paused: true });
    const { status, body } = await caller.post('/schedules/nightly/run');
    expect([status, Object.keys(body)]).toEqual([202, ['job_id']]);
    const job = await caller.reached(body.job_id, 'COMPLETED');
    expect(planned.map((time) => time?.toISOString())).toEqual([job.planned_at]);
    expect(Math.abs(Date.parse(job.planned_at) - Date.parse(job.created_at))).toBeLessThan(HOUR_MS);
    const shown = (await caller.get('/schedules/nightly')).body;
    expect(shown).toMatchObject({ last_job_id: body.job_id, last_at: job.planned_at, paused: true });
    expect((await caller.get(`/jobs/${await caller.submit()}`)).body.planned_at).toBeNull();
  });

  it('refuses to run now while its job has not ended, if its runs must not overlap', async () => {
    const caller = await queue.caller();
    await create(caller, { overlap: 'skip' });
    const { body: first } = await caller.post('/schedules/nightly/run');
    const second = await caller.post('/schedules/nightly/run');
    expect([second.status, second.body.code]).toEqual([409, 'CONFLICT']);
    expect(second.body.message).toContain(first.job_id);
    await caller.post(`/jobs/${first.job_id}/cancel`);
    expect((await caller.post('/schedules/nightly/run')).status).toBe(202);
  });

  it('submits its job at the next run, which becomes its last', async () => {
    const caller = await queue.caller();
    const { next_at } = await create(caller, { cron: '* * * * * *' });
    const read = async () => (await caller.get('/schedules/nightly')).body;
    await until('the schedule has fired', async () => (await read()).last_job_id !== null);
    const fired = (await caller.patch('/schedules/nightly', { paused: true })).body;
    const job = (await caller.get(`/jobs/${fired.last_job_id}`)).body;
    expect(job).toMatchObject({ type: 'report', planned_at: fired.last_at, idempotency_key: `schedule:nightly:${fired.last_at}` });
    expect(Date.parse(fired.last_at)).toBeGreaterThanOrEqual(Date.parse(next_at));
  });

  it('does not run while the org has no room for its job, and says so', async () => {
    const caller = await queue.caller();
    await create(caller);
    const quota = { limit: 'org_queue_depth', current: 5, maximum: 5, retryAfterMs: 1_000 };
    queue.admitChild = async ({ orgId }) => {
      if (orgId === caller.orgId) throw new AppError('QUOTA_EXCEEDED', { quota });
    };
    const { status, body } = await caller.post('/schedules/nightly/run');
    queue.admitChild = undefined;
    expect([status, body.quota.limit]).toEqual([429, 'org_queue_depth']);
    expect((await caller.get('/schedules/nightly')).body.last_job_id).toBeNull();
  });
});

describe('the next runs of a schedule', () => {
  it('are ten by default, at most a hundred, and those of a paused one are shown too', async () => {
    const caller = await queue.caller();
    const { next_at } = await create(caller);
    const { body } = await caller.get('/schedules/nightly/next');
    expect(body.items).toHaveLength(10);
    expect(body.items[0]).toBe(next_at);
    await caller.patch('/schedules/nightly', { paused: true });
    expect((await caller.get('/schedules/nightly/next', { count: '100' })).body.items).toHaveLength(100);
    for (const count of ['0', '101', '-1', 'ten', '1.5']) {
      const refused = await caller.get('/schedules/nightly/next', { count });
      expect([count, refused.status, refused.body.details[0].field]).toEqual([count, 400, 'count']);
    }
  });

  it('come at the end of a gap of the clocks, and once where they repeat an hour', async () => {
    const caller = await queue.caller();
    await create(caller, { cron: '30 2,14 25-31 3,10 *' });
    const times = (await caller.get('/schedules/nightly/next', { count: '100' })).body.items as string[];
    const onChange = times.filter((time) => isChange(time.slice(0, 10)));
    const gaps = onChange.filter((time) => time.slice(5, 7) === '03').map((time) => time.slice(10));
    const repeats = onChange.filter((time) => time.slice(5, 7) === '10').map((time) => time.slice(10));
    expect(new Set(gaps)).toEqual(new Set(['T01:00:00.000Z', 'T12:30:00.000Z']));
    expect(new Set(repeats)).toEqual(new Set(['T00:30:00.000Z', 'T13:30:00.000Z']));
    expect(new Set(onChange).size).toBe(onChange.length);
  });
});

/** The clocks of Berlin change on the last Sundays of March and October, which have 31 days. */
const isChange = (date: string): boolean => new Date(date).getUTCDay() === 0 && Number(date.slice(8)) > 24;

describe('a list of schedules', () => {
  it('is read page by page, in the order of the keys, each once', async () => {
    const caller = await queue.caller();
    const keys = ['a', 'b', 'c', 'd', 'e'];
    for (const key of keys) await create(caller, { key });
    const seen: string[] = [];
    let cursor: string | null = null;
    do {
      const { body } = await caller.get('/schedules', { limit: '2', ...(cursor === null ? {} : { cursor }) });
      seen.push(...body.items.map(({ key }: { key: string }) => key));
      cursor = body.next_cursor;
    } while (cursor !== null);
    expect(seen).toEqual(keys);
  });

  it('ends a page early when its payloads are large, and loses none', async () => {
    const caller = await queue.caller();
    for (const key of ['a', 'b', 'c', 'd', 'e', 'f']) await create(caller, { key, payload: { text: 'x'.repeat(990_000) } });
    const first = (await caller.get('/schedules')).body;
    expect(first.items.length).toBeLessThan(6);
    const second = (await caller.get('/schedules', { cursor: first.next_cursor })).body;
    expect([...first.items, ...second.items].map(({ key }) => key)).toEqual(['a', 'b', 'c', 'd', 'e', 'f']);
    expect(second.next_cursor).toBeNull();
  });

  it('refuses a wrong limit, and a cursor that it did not make', async () => {
    const caller = await queue.caller();
    const queries: Record<string, string>[] = [
      { limit: '0' },
      { limit: '1001' },
      { cursor: 'nonsense' },
      { cursor: 'x'.repeat(3_000) },
      { page: '2' },
    ];
    for (const query of queries) expect([query, (await caller.get('/schedules', query)).status]).toEqual([query, 400]);
  });
});

describe('a wrong schedule', () => {
  it.each([
    ['no cron', { cron: undefined }, 'cron'],
    ['an empty cron', { cron: '' }, 'cron'],
    ['a cron with too few fields', { cron: '* *' }, 'cron'],
    ['a cron that never matches', { cron: '0 0 30 2 *' }, 'cron'],
    ['a date', { cron: '2030-01-01T00:00:00Z' }, 'cron'],
    ['a very long cron', { cron: `${'1,'.repeat(300)}1 * * * *` }, 'cron'],
    ['an unknown zone', { time_zone: 'Europe/Atlantis' }, 'time_zone'],
    ['an unknown rule for missed runs', { missed: 'two' }, 'missed'],
    ['an unknown rule for overlaps', { overlap: 'cancel' }, 'overlap'],
    ['a pause that is a word', { paused: 'yes' }, 'paused'],
    ['a long reason', { reason: 'x'.repeat(1_001) }, 'reason'],
    ['no type', { type: undefined }, 'type'],
    ['a reserved type', { type: 'forgerun.job' }, 'type'],
    ['a payload that is no object', { payload: 'text' }, 'payload'],
    ['a queue that does not exist', { queue: 'q:nowhere' }, 'queue'],
    ['a time of its own', { scheduled_at: '2030-01-01T00:00:00Z' }, 'scheduled_at'],
    ['a key of its own', { idempotency_key: 'k' }, 'idempotency_key'],
    ['dependencies', { depends_on: [] }, 'depends_on'],
    ['a delay beyond the lifetime', { delay: 'P8D' }, 'delay'],
    ['a member that only the server sets', { next_at: '2030-01-01T00:00:00Z' }, 'next_at'],
  ])('with %s is refused, and names the field', async (_what, members, field) => {
    const caller = await queue.caller();
    const { status, body } = await caller.post('/schedules', { key: 'nightly', ...NIGHTLY, ...members });
    expect([status, body.code, body.details[0]?.field]).toEqual([400, 'INVALID_REQUEST', field]);
    expect((await caller.get('/schedules')).body.items).toEqual([]);
    await create(caller);
    const { type: _type, ...change } = members as { type?: string };
    if (Object.values(change).some((value) => value !== undefined))
      expect((await caller.patch('/schedules/nightly', change)).status).toBe(400);
  });
});
