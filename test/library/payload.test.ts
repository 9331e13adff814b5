import { describe, expect, it } from 'vitest';
import { allEnded, Gate, insist, useStage } from './fixture.ts';

const stage = useStage();
const MEBIBYTE = 1_048_576;

describe('a payload', () => {
  it('reaches the handler as it was given, also when a caller changes its object later [GM-9.01] [GM-9.04] [GM-9.06]', async () => {
    const payload = { text: 'ÄÖ 漢字 💥 \\u0041', list: [1, null, { deep: true }] };
    const gate = new Gate();
    const given = stage.acting(
      async (_, seen) => {
        await gate.pass();
        return seen;
      },
      { payload },
    );
    const accepted = stage.millrace.submit(given);
    (given.payload as { text: string }).text = 'changed';
    const { jobId } = await accepted;
    await gate.reached();
    gate.open();
    expect((await stage.end(jobId)).result?.output).toEqual(payload);
  });

  it('may be bytes, and comes back as bytes [GM-9.01]', async () => {
    const millrace = await stage.work({
      bytes: (_, payload) => ({ isBytes: payload instanceof Uint8Array, size: (payload as Uint8Array).length }),
    });
    const { jobId } = await millrace.submit({ type: 'bytes', payload: new Uint8Array([0, 128, 255]) });
    const job = await millrace.waitFor(jobId);
    expect(job.result?.output).toEqual({ isBytes: true, size: 3 });
    expect([...(job.payload as Uint8Array)]).toEqual([0, 128, 255]);
  });

  it('is an object or bytes, and can be written as JSON', async () => {
    for (const payload of [null, 'text', 7, [1], new Map(), { n: 1n }]) {
      await expect(stage.millrace.submit({ type: 'act', payload })).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
    }
  });

  it('has at most one megabyte unless set otherwise [GM-9.02]', async () => {
    const sized = (bytes: number) => ({ type: 'sized', payload: { t: 'x'.repeat(bytes - 8) } });
    expect((await stage.millrace.submit(sized(MEBIBYTE))).status).toBe('ACCEPTED');
    await expect(stage.millrace.submit(sized(MEBIBYTE + 1))).rejects.toMatchObject({
      details: [{ code: 'PAYLOAD_TOO_LARGE' }],
    });
  });

  it('may be given up to 16 MB, not more [GM-9.03]', async () => {
    const wide = await stage.open({ maxPayloadBytes: 16 * MEBIBYTE });
    // On a busy machine the statement may take longer than its time limit allows.
    const submission = { type: 'wide', payload: new Uint8Array(16 * MEBIBYTE), idempotencyKey: 'wide' };
    const jobId = await insist(wide, submission);
    const { payload } = (await wide.get(jobId)) as { payload: Uint8Array };
    expect(payload.length).toBe(16 * MEBIBYTE);
    await expect(stage.open({ maxPayloadBytes: 16 * MEBIBYTE + 1 })).rejects.toMatchObject({ code: 'INVALID_CONFIG' });
  });

  it('is not interpreted: what looks like a secret or a member of ours passes untouched [GM-9.05]', async () => {
    const payload = { password: 'p', state: 'completed', type: 'other', priority: 'CRITICAL', __proto__x: 1 };
    const job = await stage.end(await stage.act((_, seen) => seen, { payload }));
    expect(job.result?.output).toEqual(payload);
    expect(job).toMatchObject({ type: 'act', priority: 'NORMAL' });
  });

  it('cannot be changed: a corrected job is submitted and the first one cancelled [GM-9.06] [GM-9.07]', async () => {
    const { jobId: wrong } = await stage.millrace.submit(stage.acting((_, seen) => seen, { payload: { amount: 10 }, delay: '1h' }));
    const right = await stage.act((_, seen) => seen, { payload: { amount: 100 } });
    expect(await stage.millrace.cancel(wrong, { reason: `replaced by ${right}` })).toMatchObject({
      status: 'CANCELLED',
    });
    expect((await stage.end(right)).result?.output).toEqual({ amount: 100 });
    expect(await stage.millrace.get(wrong)).toMatchObject({ state: 'cancelled', payload: { amount: 10 } });
  });
});

describe('a result', () => {
  const returning = (bytes: number) => () => 'x'.repeat(bytes - 2);

  it('has at most one megabyte unless set otherwise, and a larger one fails its job for good', async () => {
    expect((await stage.end(await stage.act(returning(MEBIBYTE)))).state).toBe('completed');
    const message = /^The result of the handler is larger than 1048576 bytes\..* raise limits\.result_size .*maxResultBytes/;
    const refusal = { category: 'PERMANENT', code: 'RESULT_TOO_LARGE', message: expect.stringMatching(message) };
    const job = await stage.end(await stage.act(returning(MEBIBYTE + 1)));
    expect(job).toMatchObject({ state: 'failed', attemptsStarted: 1, lastFailure: refusal });
    const inTransaction = await stage.act(async (context) => {
      const client = await stage.connect();
      await client.query('BEGIN');
      await context.completeIn(client, returning(MEBIBYTE + 1)()).finally(() => client.query('ROLLBACK'));
    });
    expect(await stage.end(inTransaction)).toMatchObject({ state: 'failed', lastFailure: refusal });
  });

  it('may be given up to 16 MB, not more', async () => {
    const wide = await stage.open({ maxResultBytes: 16 * MEBIBYTE });
    wide.register({ type: 'wide-text', handler: returning(3 * MEBIBYTE) });
    wide.register({ type: 'wide-bytes', handler: () => new Uint8Array(16 * MEBIBYTE) });
    await wide.start();
    const text = await wide.submit({ type: 'wide-text', payload: {} });
    const bytes = await wide.submit({ type: 'wide-bytes', payload: {} });
    expect((await wide.waitFor(text.jobId)).result?.output).toHaveLength(3 * MEBIBYTE - 2);
    expect((await wide.waitFor(bytes.jobId)).result?.output).toHaveLength(16 * MEBIBYTE);
    await expect(stage.open({ maxResultBytes: 16 * MEBIBYTE + 1 })).rejects.toMatchObject({
      code: 'INVALID_CONFIG',
      details: [{ field: 'maxResultBytes' }],
    });
  });

  it('is written once the lock on its job is gone, also when several together exceed a statement', async () => {
    const wide = await stage.open({ maxResultBytes: 4 * MEBIBYTE, concurrency: 8 });
    const gate = new Gate();
    wide.register({ type: 'held', handler: () => gate.pass().then(returning(3 * MEBIBYTE)) });
    wide.register({ type: 'after', handler: () => 1 });
    await wide.start();
    const ids: string[] = [];
    for (let n = 0; n < 6; n++) ids.push((await wide.submit({ type: 'held', payload: {} })).jobId);
    await gate.reached(6);
    const client = await stage.connect();
    await client.query('BEGIN');
    await client.query('SELECT FROM millrace.jobs WHERE id = ANY ($1) FOR UPDATE', [ids]);
    gate.open();
    // Completions are written in the order in which the handlers returned, so the others were tried before these landed.
    for (let n = 0; n < 5; n++) {
      const after = await wide.submit({ type: 'after', payload: {} });
      expect((await wide.waitFor(after.jobId)).state).toBe('completed');
    }
    await client.query('COMMIT');
    for (const { state } of await allEnded(wide, ids)) expect(state).toBe('completed');
  });
});
