import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { until } from '../until.ts';
import { deadOrder, ORDER } from './dead-letter-fixture.ts';
import { useQueue } from './queue-fixture.ts';

const queue = useQueue(ORDER);

const rowsOf = async <Row>(text: string, values: unknown[]): Promise<Row[]> =>
  (await queue.ledger.db.api.query(text, values)).rows as Row[];

describe('a job at its last attempt', () => {
  it('is an entry the moment that it reads DEAD_LETTER, with its error and an action plan [AB-dead.01] [AB-dead.03] [AB-dead.04] [AB-dead.10] [AB-queue.08] [AB-queue.14] [AB-def.05]', async () => {
    const caller = await queue.caller();
    const id = await deadOrder(
      caller,
      { error: 'the provider is down' },
      { queue: 'q:exports', max_attempts: 2, backoff: { initial_delay: 'PT0.001S' } },
    );
    expect((await caller.get(`/jobs/${id}`)).body).toMatchObject({
      state: 'DEAD_LETTER',
      queue: 'q:deadletter',
      origin_queue: 'q:exports',
      dead_letter_status: 'open',
      replaces_job_id: null,
      replaced_by_job_id: null,
    });
    const { status, body } = await caller.get(`/deadletter/${id}`);
    expect(status).toBe(200);
    expect(body).toMatchObject({
      job_id: id,
      type: 'order',
      origin_queue: 'q:exports',
      category: null,
      status: 'open',
      attempts: 2,
      reason: 'attempts_exhausted',
      error: {
        code: 'PROVIDER_DOWN',
        message: 'the provider is down',
        category: 'TEMPORARY',
        stack: expect.stringContaining('dead-letter-fixture.ts'),
      },
      action_plan: { recommended: 'replay', steps: expect.any(Array) },
      resolved_by: null,
      replaced_by_job_id: null,
    });
  });

  it('has a sanitised error [AB-dead.05]', async () => {
    const caller = await queue.caller();
    const id = await deadOrder(caller, { error: 'refused: Authorization: Bearer abcdefghijklmnop, password=hunter22' });
    const text = JSON.stringify((await caller.get(`/deadletter/${id}`)).body);
    expect(text).not.toContain('abcdefghijklmnop');
    expect(text).not.toContain('hunter22');
    const [row] = await rowsOf<{ error: string }>('SELECT error::text FROM millrace.dead_letters WHERE job_id = $1', [id]);
    expect(row?.error).not.toContain('hunter22');
  });

  it('raises one alert for its group and hour, which counts the entries [AB-dead.06]', async () => {
    const caller = await queue.caller();
    const id = await deadOrder(caller, { error: 'disk 1 is full' });
    await deadOrder(caller, { error: 'disk 2 is full' });
    type Alert = { kind: string; subject: string; repeats: number; hour: Date };
    const read = () =>
      rowsOf<Alert>('SELECT kind, subject, repeats, hour FROM millrace.alerts WHERE org_id = $1 ORDER BY hour', [caller.orgId]);
    await until('both entries are counted', read, (rows) => rows.reduce((sum, { repeats }) => sum + repeats, 0) === 2);
    const alerts = await read();
    expect(new Set(alerts.map(({ hour }) => hour.getTime())).size).toBe(alerts.length);
    expect(alerts[0]).toMatchObject({ kind: 'dead_letter', subject: `job:${id}` });
  });

  it('that failed permanently twice is poison if it is governed, and only then [C43] [AB-dead.02] [AB-accept.07]', async () => {
    const caller = await queue.caller();
    const payload = { error: 'no such customer', permanent: true, code: 'UNKNOWN_CUSTOMER' };
    for (const [category, state] of [
      ['maintenance', 'DEAD_LETTER'],
      [undefined, 'FAILED'],
    ] as const) {
      const { orgId } = caller;
      const id = await caller.submit({ type: 'order', payload, ...(category === undefined ? {} : { category }) });
      await caller.reached(id, 'FAILED');
      await caller.post(`/jobs/${id}/retry`, {});
      const read = async () => (await caller.get(`/jobs/${id}`, { include_history: 'true' })).body;
      const ends = ({ history }: { history: { to_state: string }[] }) =>
        history.filter(({ to_state }) => ['FAILED', 'DEAD_LETTER'].includes(to_state));
      await until('the second attempt has ended', read, (each) => ends(each).length === 2);
      const job = await read();
      expect({ orgId, state: job.state }).toEqual({ orgId, state });
      expect(job.history.at(-1).reason).toBe(category === undefined ? 'permanent_failure' : 'poison');
      if (category !== undefined)
        expect((await caller.get(`/deadletter/${id}`)).body).toMatchObject({
          reason: 'poison',
          action_plan: { recommended: 'fix_forward' },
        });
    }
  });
});

describe('entries', () => {
  it('are listed newest first, by every filter, in pages that belong to one org and filter [N37]', async () => {
    const caller = await queue.caller();
    const ids: string[] = [];
    for (const code of ['A', 'B', 'A']) ids.unshift(await deadOrder(caller, { error: `it broke`, code }, { queue: 'q:exports' }));
    const list = async (query: Record<string, string> = {}) =>
      (await caller.get('/deadletter', query)).body.items.map((each: { job_id: string }) => each.job_id);
    expect(await list()).toEqual(ids);
    expect(await list({ code: 'A' })).toEqual([ids[0], ids[2]]);
    expect(await list({ type: 'order', queue: 'q:exports' })).toEqual(ids);
    expect(await list({ queue: 'q:default' })).toEqual([]);
    expect(await list({ category: 'planning' })).toEqual([]);
    expect(await list({ project_id: randomUUID() })).toEqual([]);
    expect(await list({ status: 'discarded' })).toEqual([]);
    const { fingerprint, failed_at } = (await caller.get(`/deadletter/${ids[1]}`)).body;
    expect(await list({ fingerprint })).toEqual([ids[1]]);
    expect(await list({ since: new Date(Date.parse(failed_at) + 3_600_000).toISOString() })).toEqual([]);
    expect(await list({ until: failed_at })).toEqual([ids[2]]);
    const first = (await caller.get('/deadletter', { limit: '2' })).body;
    expect(first.items).toHaveLength(2);
    const second = (await caller.get('/deadletter', { limit: '2', cursor: first.next_cursor })).body;
    expect([...first.items, ...second.items].map(({ job_id }) => job_id)).toEqual(ids);
    expect(second.next_cursor).toBeNull();
    expect((await caller.get('/deadletter', { cursor: first.next_cursor, code: 'A' })).status).toBe(400);
    expect((await (await queue.caller()).get('/deadletter', { cursor: first.next_cursor })).status).toBe(400);
    for (const [name, value] of Object.entries({ status: 'gone', project_id: 'x', since: 'yesterday', type: 'a\0b', limit: '0' }))
      expect((await caller.get('/deadletter', { [name]: value })).status).toBe(400);
  });

  it('with the same cause are one group, whatever ids, numbers and quoted text their messages have; the largest is first', async () => {
    const caller = await queue.caller();
    for (const error of [
      `customer 4711 has no "address" since 2026-01-02T10:00:00Z`,
      `customer 12 has no "e-mail of Ada" since 2025-12-31T23:59:59Z`,
      `Customer ${randomUUID()} has no 'street' since yesterday1`,
    ])
      await deadOrder(caller, { error });
    const other = await deadOrder(caller, { error: 'the provider is down' });
    const { body } = await caller.get('/deadletter/groups');
    expect(body.items.map(({ count }: { count: number }) => count)).toEqual([3, 1]);
    expect(body.items[1]).toEqual({
      fingerprint: (await caller.get(`/deadletter/${other}`)).body.fingerprint,
      type: 'order',
      code: 'PROVIDER_DOWN',
      message: 'the provider is down',
      count: 1,
      first_at: expect.any(String),
      last_at: expect.any(String),
      sample_job_id: other,
    });
    expect((await caller.get('/deadletter/groups', { limit: '1' })).body.items).toHaveLength(1);
    expect((await caller.get('/deadletter/groups', { code: 'OTHER' })).body.items).toEqual([]);
    expect((await caller.get('/deadletter/groups', { status: 'all' })).body.items).toHaveLength(2);
  });

  it('belong to their org and project, and need their scopes', async () => {
    const caller = await queue.caller();
    const project = randomUUID();
    await rowsOf('INSERT INTO millrace.projects (org_id, id, name, created_at) VALUES ($1, $2, $3, now())', [caller.orgId, project, 'p']);
    const inside = await deadOrder(caller, { error: 'in the project' }, { project_id: project });
    const outside = await deadOrder(caller, { error: 'outside of it' });
    const bound = await caller.inProject(project);
    expect((await bound.get('/deadletter')).body.items.map(({ job_id }: { job_id: string }) => job_id)).toEqual([inside]);
    expect((await bound.get('/deadletter/groups')).body.items).toHaveLength(1);
    const stranger = await queue.caller();
    for (const who of [bound, stranger]) {
      expect((await who.get(`/deadletter/${outside}`)).status).toBe(404);
      for (const action of ['replay', 'discard', 'restore']) expect((await who.post(`/deadletter/${outside}/${action}`)).status).toBe(404);
      expect((await who.post(`/deadletter/${outside}/fix-forward`, { payload: {} })).status).toBe(404);
    }
    expect((await caller.get(`/deadletter/${outside}`)).body.status).toBe('open');
    const reader = await caller.with('failures:read');
    expect((await reader.get(`/deadletter/${outside}`)).status).toBe(200);
    expect((await reader.post(`/deadletter/${outside}/replay`)).status).toBe(403);
    expect((await (await caller.with('deadletter:manage')).get('/deadletter')).status).toBe(403);
    for (const id of ['nope', randomUUID(), '..%2f..', '__proto__']) expect((await caller.get(`/deadletter/${id}`)).status).toBe(404);
  });
});
