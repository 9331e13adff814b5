import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { API_KEY_SCOPES } from '../../src/core/api-key.ts';
import { ACTIONS_BESIDE_KEYS } from '../ledger/audited-actions.ts';
import { type Body, create, deadOrder, deadOrders, finished, healed, itemsOf, ORDER, reached } from './dead-letter-fixture.ts';
import { randomId, useQueue } from './queue-fixture.ts';

const queue = useQueue(ORDER);

const rowsOf = async <Row>(text: string, values: unknown[]): Promise<Row[]> =>
  (await queue.ledger.db.api.query(text, values)).rows as Row[];

describe('an operation', () => {
  it('replays what a filter matches, follows the outcomes, and reports each job once [N37]', async () => {
    const caller = await queue.caller();
    const error = `down ${randomId()}`;
    const ids = await deadOrders(caller, 5, error);
    const other = await deadOrder(caller, { error: 'another cause', code: 'OTHER' });
    healed.add(error);
    const { operation_id: id, ...created } = await create(caller, {
      action: 'replay',
      filter: { code: 'PROVIDER_DOWN' },
      rate: 1_000,
      reason: 'provider is back',
    });
    expect(created).toMatchObject({
      action: 'replay',
      state: 'running',
      matching: 5,
      listing_complete: true,
      canary: 0,
      rate: 1_000,
      halted_because: null,
      finished_at: null,
      reason: 'provider is back',
    });
    expect(await finished(caller, id)).toMatchObject({ state: 'completed', matching: 5, done: 5, succeeded: 5, failed: 0, skipped: 0 });
    const items = await itemsOf(caller, id);
    expect(items.map(({ job_id }) => job_id).sort()).toEqual([...ids].sort());
    expect(items.every(({ result }) => result === 'succeeded')).toBe(true);
    expect((await caller.get('/deadletter')).body.items.map(({ job_id }: Body) => job_id)).toEqual([other]);
    const events = await rowsOf<{ event: string; entries: number }>(
      `SELECT event, count(*)::int4 AS entries FROM ${ACTIONS_BESIDE_KEYS} WHERE org_id = $1 GROUP BY event ORDER BY event`,
      [caller.orgId],
    );
    expect(events).toEqual([
      { event: 'deadletter.replayed', entries: 5 },
      { event: 'operation.created', entries: 1 },
    ]);
  });

  it('shows with dry_run what it would do, masked, and changes nothing', async () => {
    const caller = await queue.caller();
    const [id] = await deadOrders(caller, 1, 'dry', { password: 'hunter22', currency: 'eur' });
    const request = {
      action: 'fix_forward',
      filter: { type: 'order' },
      patch: [{ op: 'replace', path: '/currency', value: 'EUR' }],
      dry_run: true,
    };
    const { status, body } = await caller.post('/operations', request);
    expect(status).toBe(200);
    expect(body).toEqual({
      matching: 1,
      sample: [
        {
          job_id: id,
          before: { error: 'dry', n: 0, password: '[masked]', currency: 'eur' },
          after: { error: 'dry', n: 0, password: '[masked]', currency: 'EUR' },
        },
      ],
    });
    const unfit = await caller.post('/operations', { ...request, patch: [{ op: 'remove', path: '/absent' }] });
    expect(unfit.body.sample[0]).toMatchObject({ after: null, error: expect.stringContaining('does not fit') });
    expect((await caller.get('/operations')).body.items).toEqual([]);
    expect((await caller.get(`/deadletter/${id}`)).body.status).toBe('open');
    expect(await rowsOf(`SELECT FROM ${ACTIONS_BESIDE_KEYS} WHERE org_id = $1`, [caller.orgId])).toEqual([]);
  });

  it('sends its canary first, halts when that fails, and another operation with the right patch completes the rest', async () => {
    const caller = await queue.caller();
    const ids = await deadOrders(caller, 30, 'bad currency');
    const wrong = await create(caller, {
      action: 'fix_forward',
      filter: {},
      patch: [{ op: 'add', path: '/fixed', value: true }],
      canary: 4,
      rate: 500,
      halt: { failure_rate: 0.2, after: 20 },
    });
    expect(wrong.state).toBe('canary');
    const halted = await reached(caller, wrong.operation_id, 'halted');
    expect(halted).toMatchObject({ failed: 4, succeeded: 0, done: 4, sent: 4, halted_because: expect.stringContaining('4 of 4') });
    const alerts = await rowsOf<{ kind: string; subject: string }>(
      `SELECT kind, subject FROM millrace.alerts WHERE org_id = $1 AND kind = 'operation_halted'`,
      [caller.orgId],
    );
    expect(alerts).toEqual([{ kind: 'operation_halted', subject: `operation:${wrong.operation_id}` }]);
    expect(await caller.post(`/operations/${wrong.operation_id}/stop`)).toMatchObject({ status: 200, body: { state: 'stopped' } });
    expect(await finished(caller, wrong.operation_id)).toMatchObject({ state: 'stopped', matching: 30, failed: 4, skipped: 26, done: 30 });
    const right = await create(caller, {
      action: 'fix_forward',
      filter: {},
      patch: [{ op: 'remove', path: '/error' }],
      canary: 4,
      rate: 1_000,
    });
    expect(right.matching).toBe(30);
    expect(await finished(caller, right.operation_id)).toMatchObject({
      state: 'completed',
      matching: 30,
      succeeded: 30,
      failed: 0,
      skipped: 0,
    });
    const items = await itemsOf(caller, right.operation_id);
    expect(new Set(items.map(({ new_job_id }) => new_job_id)).size).toBe(30);
    // Of the first 4, the new jobs died in their place.
    const replaced = items.map(({ job_id }) => job_id).filter((job) => ids.includes(job));
    expect(replaced).toHaveLength(26);
  });

  it('halts after the given number of failures, and counts anew when it is resumed', async () => {
    const caller = await queue.caller();
    await deadOrders(caller, 12, 'still down');
    // So slow that the failures are seen before all are sent, on a busy machine, too. It goes on faster.
    const { operation_id: id } = await create(caller, { action: 'replay', filter: {}, rate: 1, halt: { failure_rate: 0.5, after: 3 } });
    const first = await reached(caller, id, 'halted');
    expect(first.failed).toBeGreaterThanOrEqual(3);
    expect(first.done).toBeLessThan(12);
    expect((await caller.post(`/operations/${id}/pause`)).status).toBe(409);
    healed.add('still down');
    await rowsOf('UPDATE millrace.operations SET rate = 1000 WHERE id = $1', [id]);
    expect((await caller.post(`/operations/${id}/resume`)).body).toMatchObject({ state: 'running', halted_because: null });
    const { succeeded, failed } = await finished(caller, id);
    expect(succeeded + failed).toBe(12);
    expect(failed).toBeLessThan(12);
    const events = (
      await rowsOf<{ event: string }>(
        `SELECT event FROM ${ACTIONS_BESIDE_KEYS} WHERE org_id = $1 AND event LIKE 'operation.%' ORDER BY id`,
        [caller.orgId],
      )
    ).map(({ event }) => event);
    expect(events).toEqual(['operation.created', 'operation.halted', 'operation.resumed']);
  });

  it('takes named jobs, each once, and skips those that it cannot act on', async () => {
    const caller = await queue.caller();
    const stranger = await queue.caller();
    const own = await deadOrder(caller, { error: 'own' });
    const foreign = await deadOrder(stranger, { error: 'foreign' });
    const gone = await deadOrder(caller, { error: 'gone' });
    await caller.post(`/deadletter/${gone}/discard`);
    const unknown = randomUUID();
    const job_ids = [own, own.toUpperCase(), foreign, gone, unknown, 'nope', '__proto__', '../x'];
    const { operation_id: id, matching } = await create(caller, { action: 'discard', job_ids });
    expect(matching).toBe(7);
    expect(await finished(caller, id)).toMatchObject({ succeeded: 1, skipped: 6, failed: 0 });
    const items = await itemsOf(caller, id);
    expect(items.map(({ job_id, result }) => [job_id, result])).toEqual([
      [own, 'succeeded'],
      ...[foreign, gone, unknown, 'nope', '__proto__', '../x'].map((each) => [each, 'skipped']),
    ]);
    expect(items.slice(1).every(({ error }) => typeof error === 'string' && error.length > 0)).toBe(true);
    expect((await stranger.get(`/deadletter/${foreign}`)).body.status).toBe('open');
    expect(await itemsOf(caller, id, { result: 'succeeded' })).toHaveLength(1);
    const page = (await caller.get(`/operations/${id}/items`, { limit: '5' })).body;
    expect((await caller.get(`/operations/${id}/items`, { limit: '5', cursor: page.next_cursor })).body.items).toHaveLength(2);
  });

  it('retries and cancels jobs that a search finds', async () => {
    const caller = await queue.caller();
    const payload = { error: 'no', permanent: true };
    const failed = await caller.submit({ type: 'order', payload });
    await caller.reached(failed, 'FAILED');
    healed.add('no');
    const retry = await create(caller, { action: 'retry', filter: { types: ['order'], states: ['FAILED'] } });
    expect(await finished(caller, retry.operation_id)).toMatchObject({ matching: 1, succeeded: 1 });
    const tag = randomId();
    const waiting = await Promise.all([1, 2].map(() => caller.submit({ type: 'nobody-runs-this', tags: { tag } })));
    const cancel = await create(caller, { action: 'cancel', filter: { tags: { tag } } });
    expect(await finished(caller, cancel.operation_id)).toMatchObject({ matching: 2, succeeded: 2, undo_until: null });
    for (const job of waiting) expect(await caller.state(job)).toBe('CANCELLED');
    expect((await caller.post(`/operations/${cancel.operation_id}/undo`)).status).toBe(409);
  });

  it('is refused with a clear error', async () => {
    const caller = await queue.caller();
    for (const [body, field] of [
      [{ action: 'replay' }, 'filter'],
      [{ action: 'replay', filter: {}, job_ids: ['a'] }, 'filter'],
      [{ action: 'replay', filter: { type: 7 } }, 'filter.type'],
      [{ action: 'replay', filter: { kind: 'x' } }, 'filter.kind'],
      [{ action: 'replay', filter: { status: 'discarded' } }, 'filter.status'],
      [{ action: 'replay', filter: { types: ['a'] } }, 'filter.types'],
      [{ action: 'replay', filter: {}, patch: [{ op: 'remove', path: '/a' }] }, 'patch'],
      [{ action: 'fix_forward', filter: {} }, 'payload'],
      [{ action: 'fix_forward', filter: {}, patch: [{ op: 'add', path: '/__proto__/a', value: 1 }] }, 'patch[0].path'],
      [{ action: 'cancel', filter: {} }, 'filter'],
      [{ action: 'cancel', filter: { states: ['COMPLETED'] } }, 'filter.states'],
      [{ action: 'retry', filter: { states: ['BROKEN'] } }, 'filter.states'],
      [{ action: 'retry', filter: { type: 'order' } }, 'filter.type'],
      [{ action: 'replay', filter: {}, rate: 0 }, 'rate'],
      [{ action: 'replay', filter: {}, canary: -1 }, 'canary'],
      [{ action: 'replay', filter: {}, halt: { failure_rate: 2 } }, 'halt.failure_rate'],
      [{ action: 'destroy', filter: {} }, 'action'],
      [{ action: 'replay', filter: {}, reason: 'r'.repeat(1_001) }, 'reason'],
    ] as const) {
      const refused = await caller.post('/operations', body);
      expect({ body, status: refused.status, field: refused.body.details?.[0]?.field }).toEqual({ body, status: 400, field });
    }
    expect((await caller.get(`/operations/${randomUUID()}`)).status).toBe(404);
    expect((await caller.get('/operations/__proto__/items')).status).toBe(404);
  });

  it('belongs to its org and project, and needs the scope of its action', async () => {
    const caller = await queue.caller();
    await deadOrder(caller, { error: 'mine' });
    const { operation_id: id } = await create(caller, { action: 'discard', filter: {} });
    await finished(caller, id);
    const project = randomUUID();
    await rowsOf('INSERT INTO millrace.projects (org_id, id, name, created_at) VALUES ($1, $2, $3, now())', [caller.orgId, project, 'p']);
    for (const who of [await queue.caller(), await caller.inProject(project)]) {
      expect((await who.get('/operations')).body.items).toEqual([]);
      for (const path of ['', '/items']) expect((await who.get(`/operations/${id}${path}`)).status).toBe(404);
      for (const control of ['pause', 'resume', 'stop', 'undo']) expect((await who.post(`/operations/${id}/${control}`)).status).toBe(404);
      expect((await create(who, { action: 'replay', filter: {} })).matching).toBe(0);
    }
    const writer = await caller.with('jobs:write', 'jobs:read');
    expect((await writer.post('/operations', { action: 'replay', filter: {} })).status).toBe(403);
    expect((await writer.post('/operations', { action: 'cancel', filter: { types: ['x'] } })).status).toBe(403);
    expect((await writer.post(`/operations/${id}/undo`)).status).toBe(403);
    expect((await writer.get(`/operations/${id}`)).status).toBe(200);
    expect((await (await caller.with('deadletter:manage')).post('/operations', { action: 'replay', filter: {} })).status).toBe(202);
    expect((await (await caller.with('audit:read')).get('/operations')).status).toBe(403);
  });

  it.each([
    { action: 'replay', filter: { project_id: randomUUID(), type: 'order', since: '2020-01-01T00:00:00.000Z' } },
    { action: 'cancel', filter: { types: ['order'], states: ['SCHEDULED'], created_after: '2020-01-01T00:00:00.000Z' } },
  ])('shows its filter as a request can name it again: $action', async ({ action, filter }) => {
    const caller = await queue.caller();
    const first = await create(caller, { action, filter });
    expect(first.filter).toEqual(filter);
    expect((await create(caller, { action, filter: first.filter })).filter).toEqual(filter);
  });

  it('shows in a dry run which rule of its category a corrected job would break', async () => {
    const caller = await queue.caller();
    const payload = { error: 'a test', recipient: 'ada', template: 'welcome' };
    const id = await deadOrder(caller, payload, { category: 'notification' });
    const preview = async (patch: object[]) =>
      (await caller.post('/operations', { action: 'fix_forward', job_ids: [id], patch, dry_run: true })).body.sample;
    expect(await preview([{ op: 'add', path: '/password', value: 'x' }])).toMatchObject([
      { error: expect.stringContaining('payload.password') },
    ]);
    expect(await preview([{ op: 'remove', path: '/template' }])).toMatchObject([{ error: expect.stringContaining('payload.template') }]);
    const [fitting] = await preview([{ op: 'replace', path: '/template', value: 'hello' }]);
    expect(fitting).toMatchObject({ job_id: id, after: { template: 'hello' } });
    expect(fitting).not.toHaveProperty('error');
  });

  it('is not made by a request with a parameter that means nothing, such as a dry run in the address', async () => {
    const caller = await queue.caller();
    const id = await deadOrder(caller, { error: 'a test' });
    const response = await fetch(`${queue.url}/queue/v1/operations?dry_run=true`, {
      method: 'POST',
      headers: { authorization: `Bearer ${await queue.keyOf(caller.orgId, API_KEY_SCOPES)}`, 'content-type': 'application/json' },
      body: JSON.stringify({ action: 'discard', job_ids: [id] }),
    });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ details: [{ field: 'dry_run', code: 'UNKNOWN_MEMBER' }] });
    expect((await caller.get(`/deadletter/${id}`)).body.status).toBe('open');
  });
});
