import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { until } from '../until.ts';
import { type Answer, type Caller, useQueue } from './queue-fixture.ts';

const queue = useQueue();

type Item = Record<string, unknown> & { event: string; details: Record<string, unknown> };

const listOf = (caller: Caller, query = {}): Promise<Answer> => caller.get('/audit', query);

/** The rows of a caller, newest first, once there are so many. */
async function rows(caller: Caller, count: number, query = {}): Promise<Item[]> {
  let items: Item[] = [];
  await until(`${count} rows are in the trail`, async () => {
    items = (await listOf(caller, query)).body.items;
    return items.length >= count;
  });
  return items;
}

const GOVERNED = { category: 'maintenance' };

test('a governed job, its cancel and its retry are in the trail, with who asked and why [AB-principle.06] [AB-accept.05] [C67] [C126]', async () => {
  const caller = await queue.caller();
  const jobId = await caller.act(
    async () => {
      throw new Error('Authorization: Bearer abcdefghijklmnop');
    },
    { ...GOVERNED, max_attempts: 1 },
  );
  await caller.reached(jobId, 'DEAD_LETTER', 'FAILED');
  expect((await caller.post(`/jobs/${jobId}/cancel`, { reason: 'too late' })).body.status).toBe('ALREADY_COMPLETE');
  expect((await caller.post(`/jobs/${jobId}/retry`, { reset_attempts: true, reason: 'provider is back' })).body.status).toBe('QUEUED');
  let items: Item[] = [];
  // The job fails once more after its retry, at any moment: the oldest row of an event is meant.
  const named = (event: string) => items.findLast((item) => item.event === event) as Item;
  await until('all that was done is in the trail', async () => {
    items = (await listOf(caller, { job_id: jobId })).body.items;
    return ['job.enqueued', 'job.failed', 'job.cancel_requested', 'job.retried'].every((event) => named(event) !== undefined);
  });
  expect(named('job.enqueued')).toMatchObject({
    org_id: caller.orgId,
    actor_type: 'api_key',
    attempt: 0,
    job_id: jobId,
    performed_by: null,
  });
  expect(named('job.failed')).toMatchObject({ attempt: 1, details: { final: true } });
  expect(JSON.stringify(items)).not.toContain('abcdefghijklmnop');
  expect(named('job.cancel_requested').details).toMatchObject({ reason: 'too late' });
  expect(named('job.retried')).toMatchObject({ actor_type: 'api_key', details: { reason: 'provider is back' } });
  expect(named('job.retried').request_id).not.toBe(named('job.enqueued').request_id);
});

test('a change of a job and every act on a schedule are in the trail', async () => {
  const caller = await queue.caller();
  const jobId = await caller.submit({ delay: 'PT1H' });
  await caller.patch(`/jobs/${jobId}`, { priority: 'HIGH', tags: { customer: 'acme' }, reason: 'urgent' });
  const schedule = { cron: '@daily', time_zone: 'UTC', type: 'act', payload: {} };
  await caller.post('/schedules', { key: '__proto__', ...schedule });
  await caller.patch('/schedules/__proto__', { paused: true, reason: 'night' });
  const { body } = await caller.post('/schedules/__proto__/run', {});
  await caller.send('DELETE', '/schedules/__proto__', { reason: 'gone' });
  const items = (await rows(caller, 6)).slice(0, 5);
  expect(items.map(({ event }) => event)).toEqual([
    'schedule.deleted',
    'schedule.run',
    'schedule.changed',
    'schedule.created',
    'job.changed',
  ]);
  expect(items.map(({ details }) => details)).toMatchObject([
    { key: '__proto__', reason: 'gone' },
    { key: '__proto__' },
    { key: '__proto__', paused: true, reason: 'night' },
    { key: '__proto__' },
    { priority: 1, members: ['priority', 'tags'], reason: 'urgent' },
  ]);
  expect(items[1]?.job_id).toBe(body.job_id);
  expect(JSON.stringify(items)).not.toContain('acme');
});

test('pages are newest first without gaps; filters by event, actor and time; cursors belong to their filter', async () => {
  const caller = await queue.caller();
  const ids: string[] = [];
  for (let n = 0; n < 3; n++) ids.push(await caller.submit({ delay: 'PT1H' }));
  for (const id of ids) await caller.post(`/jobs/${id}/cancel`);
  const all = await rows(caller, 4);
  expect(all.map(({ event, job_id }) => job_id ?? event)).toEqual([...ids.toReversed(), 'key.created']);
  const first = (await listOf(caller, { limit: '2' })).body;
  const second = (await listOf(caller, { limit: '2', cursor: first.next_cursor })).body;
  expect([...first.items, ...second.items]).toEqual(all);
  expect(second.next_cursor).toBeNull();
  expect((await listOf(caller, { event: 'job.cancel_requested' })).body.items.length).toBe(3);
  expect((await listOf(caller, { event: 'constructor' })).body.items).toEqual([]);
  expect((await listOf(caller, { actor_id: String(all[0]?.actor_id) })).body.items.length).toBe(3);
  const at = String(all[1]?.at);
  expect((await listOf(caller, { since: at })).body.items.map((each: Item) => each.audit_id)).toContain(all[1]?.audit_id);
  expect((await listOf(caller, { until: at })).body.items.map((each: Item) => each.audit_id)).not.toContain(all[1]?.audit_id);
  expect((await listOf(caller, { until: '2020-01-01T00:00:00Z' })).body).toEqual({ items: [], next_cursor: null });
  expect((await listOf(caller, { event: 'job.changed', cursor: first.next_cursor })).status).toBe(400);
  expect((await listOf(await queue.caller(), { limit: '2', cursor: first.next_cursor })).status).toBe(400);
  expect((await listOf(caller, { since: 'yesterday' })).status).toBe(400);
  expect((await listOf(caller, { job_id: 'not-an-id' })).body.items).toEqual([]);
});

test('needs the scope audit:read; another org sees nothing; a key of a project sees its project [AB-audit.09]', async () => {
  const caller = await queue.caller();
  const projectId = randomUUID();
  await queue.ledger.db.api.query(`INSERT INTO millrace.projects (org_id, id, name, created_at) VALUES ($1, $2, 'p', now())`, [
    caller.orgId,
    projectId,
  ]);
  const bound = await caller.inProject(projectId);
  const inside = await bound.act(async () => {}, GOVERNED);
  const outside = await caller.act(async () => {}, GOVERNED);
  await bound.reached(inside, 'COMPLETED');
  await caller.reached(outside, 'COMPLETED');
  await rows(caller, 8);
  const seen = (await rows(bound, 4)).filter(({ event }) => event !== 'key.created');
  expect(seen.length).toBe(3);
  for (const item of seen) expect(item).toMatchObject({ job_id: inside, project_id: projectId });
  expect((await listOf(bound, { job_id: outside })).body.items).toEqual([]);
  const stranger = await queue.caller();
  expect((await listOf(stranger, { job_id: outside })).body.items).toEqual([]);
  expect((await listOf(await caller.with('jobs:read', 'jobs:write', 'failures:read'))).status).toBe(403);
});

test('a handler appends rows of its own, which carry the actor of the job [AB-cat.08] [AB-cat.09] [AB-cat.10]', async () => {
  const caller = await queue.caller();
  const errors: unknown[] = [];
  const jobId = await caller.act(
    async (ctx) => {
      await ctx.audit.append('invoice.enriched', { invoice: 7, api_key: 'abc', note: 'password=hunter2' });
      for (const [event, details] of [
        ['job.succeeded', {}],
        ['NoDots', {}],
        ['__proto__', {}],
        [`a.${'b'.repeat(200)}`, {}],
        ['invoice.enriched', { text: 'x'.repeat(20_000) }],
        ['invoice.enriched', [] as never],
      ] as const)
        await ctx.audit.append(event, details).catch((error) => errors.push(error.code));
    },
    { ...GOVERNED, category: 'audit_enrichment' },
  );
  await caller.reached(jobId, 'COMPLETED');
  expect(errors).toEqual(Array(6).fill('INVALID_REQUEST'));
  const [row, ...others] = await rows(caller, 1, { event: 'invoice.enriched' });
  expect(others).toEqual([]);
  expect(row).toMatchObject({
    job_id: jobId,
    attempt: 1,
    actor_type: 'api_key',
    performed_by: expect.stringMatching(/^worker:/),
    details: { invoice: 7, api_key: '[masked]' },
  });
  expect(JSON.stringify(row)).not.toContain('hunter2');
});
