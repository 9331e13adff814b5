import { describe, expect, it } from 'vitest';
import { until } from '../until.ts';
import { type Body, create, deadOrder, deadOrders, finished, healed, itemsOf, ORDER } from './dead-letter-fixture.ts';
import { type Caller, randomId, useQueue } from './queue-fixture.ts';

const queue = useQueue(ORDER);

const rowsOf = async <Row>(text: string, values: unknown[]): Promise<Row[]> =>
  (await queue.ledger.db.api.query(text, values)).rows as Row[];

/** Dead letters whose jobs wait in a paused queue when they are replayed. */
async function deadInPausedQueue(caller: Caller, count: number): Promise<{ ids: string[]; resume: () => Promise<unknown> }> {
  const name = `pausable-${randomId()}`;
  await queue.engine.catalogue.ensureQueue(name);
  const ids = await Promise.all(Array.from({ length: count }, (_, n) => deadOrder(caller, { error: `held ${name}`, n }, { queue: name })));
  await rowsOf('UPDATE millrace.queues SET paused_at = now() WHERE name = $1', [name]);
  await queue.engine.catalogue.refresh();
  healed.add(`held ${name}`);
  const resume = async () => {
    await rowsOf('UPDATE millrace.queues SET paused_at = NULL WHERE name = $1', [name]);
    queue.engine.hint('catalogue' as never);
    await queue.engine.catalogue.refresh();
    queue.engine.hint('ready');
  };
  return { ids, resume };
}

describe('an operation', () => {
  it('pauses, and sends nothing until it is resumed', async () => {
    const caller = await queue.caller();
    await deadOrders(caller, 10, 'slow');
    healed.add('slow');
    // So slow that the pause comes in time on a busy machine, too. It goes on faster.
    const { operation_id: id } = await create(caller, { action: 'replay', filter: {}, rate: 1 });
    const { body: paused } = await caller.post(`/operations/${id}/pause`, { reason: 'wait' });
    expect(paused.state).toBe('paused');
    expect(paused.sent).toBeLessThan(10);
    expect((await caller.post(`/operations/${id}/pause`)).status).toBe(409);
    await rowsOf('UPDATE millrace.operations SET rate = 1000 WHERE id = $1', [id]);
    await caller.post(`/operations/${id}/resume`);
    expect(await finished(caller, id)).toMatchObject({ state: 'completed', succeeded: 10, sent: 10 });
    for (const control of ['pause', 'resume', 'stop']) expect((await caller.post(`/operations/${id}/${control}`)).status).toBe(409);
  });

  it('undoes its discards within the window, once', async () => {
    const caller = await queue.caller();
    const ids = await deadOrders(caller, 3, 'discarded by mistake');
    const { operation_id: id } = await create(caller, { action: 'discard', filter: {} });
    expect((await finished(caller, id)).undo_until).toEqual(expect.any(String));
    // A discard by hand is not of the operation.
    await caller.post(`/deadletter/${ids[0]}/restore`);
    await caller.post(`/deadletter/${ids[0]}/discard`);
    expect((await caller.post(`/operations/${id}/undo`)).status).toBe(200);
    await until(
      'two are undone',
      async () => (await caller.get(`/operations/${id}`)).body.undone,
      (undone) => undone === 2,
    );
    expect((await caller.get('/deadletter')).body.items).toHaveLength(2);
    expect((await itemsOf(caller, id)).filter(({ undone }) => undone)).toHaveLength(2);
    expect((await caller.post(`/operations/${id}/undo`)).status).toBe(409);
    const { operation_id: late } = await create(caller, { action: 'discard', filter: {} });
    await finished(caller, late);
    await rowsOf(`UPDATE millrace.operations SET finished_at = finished_at - interval '2 days' WHERE id = $1`, [late]);
    expect(await caller.post(`/operations/${late}/undo`)).toMatchObject({
      status: 409,
      body: { message: expect.stringContaining('undo_window') },
    });
  });

  it('undoes what another transaction held at first, when it is free', async () => {
    const caller = await queue.caller();
    const ids = await deadOrders(caller, 2, 'held');
    const { operation_id: id } = await create(caller, { action: 'discard', filter: {} });
    await finished(caller, id);
    const holder = await queue.ledger.db.maintenance.connect();
    try {
      await holder.query('BEGIN; SET LOCAL idle_in_transaction_session_timeout = 0');
      await holder.query('SELECT FROM millrace.dead_letters WHERE job_id = $1 FOR UPDATE', [ids[0]]);
      await caller.post(`/operations/${id}/undo`);
      await until('one is undone', async () => (await caller.get(`/operations/${id}`)).body.undone, 1);
      await holder.query('COMMIT');
    } finally {
      holder.release();
    }
    await until('both are undone', async () => (await caller.get(`/operations/${id}`)).body.undone, 2);
  });

  it('undoes an item whose statement took too long at first', async () => {
    const caller = await queue.caller();
    const ids = await deadOrders(caller, 2, 'slow to undo');
    const { operation_id: id } = await create(caller, { action: 'discard', filter: {} });
    await finished(caller, id);
    const { maintenance } = queue.ledger.db;
    await maintenance.query(`
      CREATE FUNCTION too_long() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE 'too long' USING ERRCODE = '57014'; END$$;
      CREATE TRIGGER too_long BEFORE UPDATE ON millrace.dead_letters
        FOR EACH ROW WHEN (NEW.job_id = '${ids[0]}') EXECUTE FUNCTION too_long()`);
    await caller.post(`/operations/${id}/undo`);
    await until('one is undone', async () => (await caller.get(`/operations/${id}`)).body.undone, 1);
    // An item that always takes too long must not keep the database busy.
    const pauseMs =
      'SELECT (extract(epoch FROM next_step_at - millrace.clock()) * 1000)::float8 AS ms FROM millrace.operations WHERE id = $1';
    await until(
      'the pauses have grown',
      async () => (await maintenance.query(pauseMs, [id])).rows[0].ms,
      (ms) => ms > 600,
    );
    await maintenance.query('DROP FUNCTION too_long CASCADE');
    await until('both are undone', async () => (await caller.get(`/operations/${id}`)).body.undone, 2);
  });

  it.each(['replay', 'fix_forward'] as const)('undoes a %s of jobs that have not started: their entries are open again', async (action) => {
    const caller = await queue.caller();
    const { ids, resume } = await deadInPausedQueue(caller, 3);
    const correction = action === 'fix_forward' ? { patch: [{ op: 'add', path: '/more', value: 1 }] } : {};
    const { operation_id: id } = await create(caller, { action, filter: {}, ...correction });
    await until(
      'all are sent',
      async () => (await caller.get(`/operations/${id}`)).body.sent,
      (sent) => sent === 3,
    );
    expect((await caller.get('/deadletter')).body.items).toEqual([]);
    await caller.post(`/operations/${id}/undo`, { reason: 'too early' });
    expect(await finished(caller, id)).toMatchObject({ state: 'stopped', undone: 3, skipped: 3, succeeded: 0 });
    const entries = (await caller.get('/deadletter')).body.items;
    expect(entries.map(({ job_id }: Body) => job_id).sort()).toEqual([...ids].sort());
    for (const job of ids) {
      const shown = (await caller.get(`/jobs/${job}`, { include_history: 'true' })).body;
      expect(shown).toMatchObject({ state: 'DEAD_LETTER', dead_letter_status: 'open', replaced_by_job_id: null });
      if (action === 'replay') expect(shown.history.at(-1)).toMatchObject({ reason: 'retry_undone' });
    }
    for (const { new_job_id } of await itemsOf(caller, id))
      if (new_job_id !== null) expect(await caller.state(new_job_id)).toBe('CANCELLED');
    await resume();
    expect((await caller.post(`/deadletter/${ids[0]}/replay`)).status).toBe(202);
    await caller.reached(ids[0] as string, 'COMPLETED');
  });
});
