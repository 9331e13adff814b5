import { describe, expect, it } from 'vitest';
import { ACTIONS_BESIDE_KEYS } from '../ledger/audited-actions.ts';
import { until } from '../until.ts';
import { create, deadOrder, finished, healed, ORDER } from './dead-letter-fixture.ts';
import { randomId, useQueue } from './queue-fixture.ts';

const queue = useQueue(ORDER);

const rowsOf = async <Row>(text: string, values: unknown[]): Promise<Row[]> =>
  (await queue.ledger.db.api.query(text, values)).rows as Row[];

const eventsOf = async (orgId: string): Promise<string[]> =>
  (await rowsOf<{ event: string }>(`SELECT event FROM ${ACTIONS_BESIDE_KEYS} WHERE org_id = $1 ORDER BY id`, [orgId])).map(
    ({ event }) => event,
  );

describe('an operator', () => {
  it('replays an entry: the same job with fresh attempts, and not twice [AB-dead.07]', async () => {
    const caller = await queue.caller();
    const error = `cause ${randomId()}`;
    const id = await deadOrder(caller, { error });
    healed.add(error);
    const replayed = await caller.post(`/deadletter/${id}/replay`, { reason: 'provider is back' });
    expect(replayed).toMatchObject({ status: 202, body: { job_id: id, state: 'SCHEDULED' } });
    expect(await caller.reached(id, 'COMPLETED')).toMatchObject({
      attempt: 1,
      queue: 'q:default',
      origin_queue: null,
      dead_letter_status: null,
    });
    expect((await caller.get(`/deadletter/${id}`)).body).toMatchObject({
      status: 'replayed',
      resolved_by: expect.stringMatching(/^api_key:/),
    });
    for (const action of ['replay', 'discard', 'restore']) expect((await caller.post(`/deadletter/${id}/${action}`)).status).toBe(409);
    const [action] = await rowsOf<{ event: string; details: object }>(
      `SELECT event, details FROM ${ACTIONS_BESIDE_KEYS} WHERE org_id = $1`,
      [caller.orgId],
    );
    expect(action).toMatchObject({ event: 'deadletter.replayed', details: { reason: 'provider is back' } });
  });

  it('finds a job that died again open again, with its new error', async () => {
    const caller = await queue.caller();
    const id = await deadOrder(caller, { error: 'still broken' });
    const before = (await caller.get(`/deadletter/${id}`)).body.failed_at;
    await caller.post(`/deadletter/${id}/replay`);
    await until(
      'it died again',
      async () => (await caller.get(`/deadletter/${id}`)).body,
      ({ status, failed_at }) => status === 'open' && failed_at !== before,
    );
    expect((await caller.get('/deadletter')).body.items).toHaveLength(1);
  });

  it('discards an entry for good: no retry runs the job again, unless the entry is restored [AB-dead.08]', async () => {
    const caller = await queue.caller();
    const error = `cause ${randomId()}`;
    const id = await deadOrder(caller, { error });
    await caller.post(`/deadletter/${id}/discard`);
    const refused = { status: 'NOT_RETRIABLE', new_state: 'DEAD_LETTER' };
    expect((await caller.post(`/jobs/${id}/retry`)).body).toMatchObject(refused);
    expect((await caller.post(`/jobs/${id}/retry`, { reset_attempts: true })).body).toMatchObject(refused);
    const { operation_id } = await create(caller, { action: 'retry', job_ids: [id] });
    expect(await finished(caller, operation_id)).toMatchObject({ succeeded: 0, skipped: 1 });
    expect((await caller.get(`/deadletter/${id}`)).body.status).toBe('discarded');
    await caller.post(`/deadletter/${id}/restore`);
    healed.add(error);
    expect((await caller.post(`/jobs/${id}/retry`, { reset_attempts: true })).body).toMatchObject({ status: 'QUEUED' });
    await caller.reached(id, 'COMPLETED');
  });

  it.each(['replay', 'discard', 'restore', 'fix-forward'])('cannot %s a job that is no dead letter', async (action) => {
    const caller = await queue.caller();
    const id = await caller.submit({ type: 'order', payload: {} });
    await caller.reached(id, 'COMPLETED');
    const body = action === 'fix-forward' ? { payload: {} } : {};
    const answer = await caller.post(`/deadletter/${id}/${action}`, body);
    expect(answer).toMatchObject({ status: 409, body: { message: `The job ${id} is not a dead letter: it is completed.` } });
    const stranger = await queue.caller();
    for (const who of [stranger, caller]) {
      const absent = who === caller ? randomId() : id;
      expect((await who.post(`/deadletter/${absent}/${action}`, body)).status).toBe(404);
    }
  });

  it('discards an entry, and restores it while there is time [AB-dead.08]', async () => {
    const caller = await queue.caller();
    const id = await deadOrder(caller, { error: 'not needed' });
    const { status, body } = await caller.post(`/deadletter/${id}/discard`, { reason: 'r'.repeat(1_000) });
    expect({ status, body }).toMatchObject({ status: 200, body: { job_id: id, status: 'discarded', undo_until: expect.any(String) } });
    expect((await caller.get(`/jobs/${id}`)).body).toMatchObject({ state: 'DEAD_LETTER', dead_letter_status: 'discarded' });
    expect((await caller.post(`/deadletter/${id}/replay`)).status).toBe(409);
    expect(await caller.post(`/deadletter/${id}/restore`)).toMatchObject({ status: 200, body: { job_id: id, status: 'open' } });
    await caller.post(`/deadletter/${id}/discard`);
    await rowsOf(`UPDATE millrace.dead_letters SET undo_until = millrace.clock() - interval '1 minute' WHERE job_id = $1`, [id]);
    const late = await caller.post(`/deadletter/${id}/restore`);
    expect(late).toMatchObject({ status: 409, body: { code: 'CONFLICT', message: expect.stringContaining('deadletter.undo_window') } });
    expect(await eventsOf(caller.orgId)).toEqual(['deadletter.discarded', 'deadletter.restored', 'deadletter.discarded']);
    expect((await caller.post(`/deadletter/${id}/discard`, { reason: 'r'.repeat(1_001) })).status).toBe(400);
  });

  it('fixes an entry forward with a patch: a new job with everything else in common [C117] [AB-dead.09]', async () => {
    const caller = await queue.caller();
    const payload = { error: 'no such currency', customer: { id: 7 }, lines: [1, 2] };
    const shared = { tags: { region: 'eu' }, correlation_id: 'order-7', queue: 'q:exports', priority: 'HIGH' };
    const id = await deadOrder(caller, payload, { ...shared, max_attempts: 1, timeout: 'PT7S' });
    const patch = [
      { op: 'remove', path: '/error' },
      { op: 'add', path: '/lines/-', value: 3 },
    ];
    const { status, body } = await caller.post(`/deadletter/${id}/fix-forward`, { patch });
    expect({ status, body }).toEqual({ status: 202, body: { job_id: expect.any(String), replaces_job_id: id } });
    const fixed = await caller.reached(body.job_id, 'COMPLETED');
    expect(fixed).toMatchObject({ ...shared, type: 'order', max_attempts: 1, replaces_job_id: id, replaced_by_job_id: null });
    const old = (await caller.get(`/jobs/${id}`)).body;
    expect(old).toMatchObject({ state: 'DEAD_LETTER', dead_letter_status: 'fixed_forward', replaced_by_job_id: body.job_id });
    expect((await caller.get(`/deadletter/${id}`)).body).toMatchObject({ status: 'fixed_forward', replaced_by_job_id: body.job_id });
    const policies = await rowsOf<{ policy_id: number; payload: string }>(
      'SELECT policy_id, payload::text FROM millrace.jobs WHERE id = ANY ($1) ORDER BY seq',
      [[id, body.job_id]],
    );
    expect(policies[0]?.policy_id).toBe(policies[1]?.policy_id);
    expect(JSON.parse(policies[1]?.payload ?? '')).toEqual({ customer: { id: 7 }, lines: [1, 2, 3] });
    expect((await caller.post(`/deadletter/${id}/fix-forward`, { patch })).status).toBe(409);
    expect((await caller.post(`/jobs/${id}/retry`, {})).body.status).toBe('NOT_RETRIABLE');
  });

  it('fixes an entry forward with a whole payload, but not with a wrong correction', async () => {
    const caller = await queue.caller();
    const id = await deadOrder(caller, { error: 'wrong', list: [1] });
    const fix = (body: unknown) => caller.post(`/deadletter/${id}/fix-forward`, body);
    for (const body of [
      {},
      { payload: {}, patch: [{ op: 'remove', path: '/error' }] },
      { patch: [] },
      { patch: [{ op: 'remove', path: '/absent' }] },
      { patch: [{ op: 'test', path: '/error', value: 'right' }] },
      { patch: [{ op: 'add', path: '/__proto__/polluted', value: 1 }] },
      { patch: [{ op: 'add', path: '/constructor/prototype/polluted', value: 1 }] },
      { patch: [{ op: 'copy', from: '/__proto__', path: '/a' }] },
      { patch: [{ op: 'eval', path: '/a' }] },
      { patch: [{ op: 'add', path: 'error', value: 1 }] },
      { patch: Array.from({ length: 101 }, () => ({ op: 'add', path: '/a', value: 1 })) },
      { patch: Array.from({ length: 100 }, () => ({ op: 'copy', from: '', path: '/a' })) },
      { patch: [{ op: 'add', path: '/a', value: 'x'.repeat(70_000) }] },
    ]) {
      const { status } = await fix(body);
      expect({ status, body: JSON.stringify(body).slice(0, 100) }).toMatchObject({ status: 400 });
    }
    expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
    expect((await caller.get(`/deadletter/${id}`)).body.status).toBe('open');
    const { body } = await fix({ payload: { fine: true } });
    await caller.reached(body.job_id, 'COMPLETED');
    expect(await eventsOf(caller.orgId)).toEqual(['deadletter.fixed_forward']);
  });

  it('wins or loses a race with another operator, and never both', async () => {
    const caller = await queue.caller();
    for (let round = 0; round < 5; round++) {
      const id = await deadOrder(caller, { error: `race ${round}` });
      healed.add(`race ${round}`);
      const answers = await Promise.all([
        caller.post(`/deadletter/${id}/replay`),
        caller.post(`/deadletter/${id}/discard`),
        caller.post(`/deadletter/${id}/fix-forward`, { payload: {} }),
        caller.post(`/jobs/${id}/retry`, {}),
      ]);
      const [replay, discard, fix] = answers.map(({ status }) => status);
      const wins = [replay, discard, fix].filter((status) => status === 202 || status === 200).length;
      expect(wins).toBeLessThanOrEqual(1);
      // A retry that waited too long for the others is answered with 503.
      if (fix === 202 && answers[3]?.status === 200) expect(answers[3].body.status).toBe('NOT_RETRIABLE');
    }
  });
});
