import { describe, expect, it } from 'vitest';
import { type Handler, JobCancelledError, PermanentError, TemporaryError } from '../../src/index.ts';
import { until } from '../until.ts';
import { AT_ONCE, Gate, untilAborted, useStage } from './fixture.ts';

const stage = useStage({ defaults: { cancelGraceMs: 200 } });
const UNKNOWN = '7b1f6dd2-7e7f-4a9b-8d1e-5d0c0f3c9a11';

describe('cancel', () => {
  it('ends a job that is not running at once, and returns its previous state [GA-3.08] [GA-3.09] [GA-3.10] [GA-3.16]', async () => {
    const delayed = await stage.act(() => 1, { delay: '1h' });
    const pending = await stage.act(() => 1, { dependsOn: [delayed], dependencyType: 'AFTER_ANY' });
    const { jobId: scheduled } = await stage.millrace.submit({ type: 'unserved', payload: {} });
    const retrying = await stage.act(() => Promise.reject(new Error('x')), { backoff: { initialDelay: '1h' } });
    await until('the job waits for its retry', async () => (await stage.millrace.get(retrying))?.state, 'retrying');
    for (const [jobId, previousState] of [
      [pending, 'pending'],
      [delayed, 'delayed'],
      [scheduled, 'scheduled'],
      [retrying, 'retrying'],
    ] as const) {
      const answer = await stage.millrace.cancel(jobId, { reason: 'not needed' });
      expect(answer).toMatchObject({ jobId, status: 'CANCELLED', previousState });
      expect(await stage.millrace.get(jobId)).toMatchObject({ state: 'cancelled', completedAt: expect.any(Date) });
    }
  });

  it('asks a running job to stop, which may finish instead [GA-3.11]', async () => {
    const gate = new Gate();
    const jobId = await stage.act(() => gate.pass().then(() => 'finished first'));
    await gate.reached();
    expect((await stage.millrace.cancel(jobId)).status).toBe('CANCEL_REQUESTED');
    // A worker that got no processor for a second counts as stalled until its next heartbeat.
    await until('the request is shown', async () => (await stage.millrace.explain(jobId))?.obstacles[0]?.code, 'CANCEL_REQUESTED');
    gate.open();
    expect(await stage.end(jobId)).toMatchObject({ state: 'completed', result: { output: 'finished first' } });
  });

  it('that was acknowledged ends a job whose attempt fails before its handler obeys [GA-3.11] [GA-3.12]', async () => {
    const told: string[] = [];
    stage.millrace.on('cancelled', ({ jobId }) => told.push(jobId));
    for (const force of [false, true]) {
      const gate = new Gate();
      const jobId = await stage.act(() => gate.pass().then(() => Promise.reject(new TemporaryError('not now'))));
      const after = await stage.act(() => 1, { dependsOn: [jobId] });
      await gate.reached();
      expect((await stage.millrace.cancel(jobId, { force, reason: 'not needed' })).status).toBe('CANCEL_REQUESTED');
      gate.open();
      const ended = await stage.end(jobId);
      expect(ended).toMatchObject({ state: 'cancelled', attemptsStarted: 1, lastFailure: { category: 'CANCELLED' } });
      expect((await stage.path(jobId)).at(-1)).toBe('running>cancelled:cancelled');
      expect((await stage.end(after)).state).toBe('cancelled');
      await until(
        'the cancellation has been reported',
        () => told,
        (seen) => seen.includes(jobId),
      );
    }
  });

  it('that was acknowledged ends a job that its worker gives back when it stops [GA-3.11]', async () => {
    const gate = new Gate();
    const millrace = await stage.work({ stubborn: () => gate.pass() });
    const { jobId } = await millrace.submit({ type: 'stubborn', payload: {} });
    await gate.reached();
    expect((await millrace.cancel(jobId)).status).toBe('CANCEL_REQUESTED');
    await millrace.drain({ grace: 0 });
    expect((await stage.end(jobId)).state).toBe('cancelled');
    expect((await stage.path(jobId)).at(-1)).toBe('running>cancelled:cancelled');
  });

  it('is seen by a handler that looks [GA-5.20]', async () => {
    const gate = new Gate();
    const jobId = await stage.act(async (context) => {
      await gate.pass();
      await until('the handler sees the cancellation', () => context.isCancelled);
      throw new JobCancelledError('I heard');
    });
    await gate.reached();
    await stage.millrace.cancel(jobId);
    gate.open();
    expect((await stage.end(jobId)).state).toBe('cancelled');
  });

  it.each([
    [false, 'GA-3.11'],
    [true, 'GA-3.12'],
  ])('with force %s aborts the signal of the handler, and the job is not retried [%s] [GM-8.05]', async (force, _id) => {
    const gate = new Gate();
    let reason: unknown;
    const jobId = await stage.act(({ signal }) => {
      void gate.pass();
      return untilAborted(signal).catch((error) => {
        reason = error;
        throw error;
      });
    });
    await gate.reached();
    expect((await stage.millrace.cancel(jobId, { force })).status).toBe('CANCEL_REQUESTED');
    expect(await stage.end(jobId)).toMatchObject({ state: 'cancelled', attemptsStarted: 1 });
    expect(reason).toBeInstanceOf(JobCancelledError);
    expect((await stage.path(jobId)).at(-1)).toBe('running>cancelled:cancelled');
  });

  it('makes an error of the last attempt the end of a cancelled job, whatever the handler throws when its signal is aborted', async () => {
    const gate = new Gate();
    const handler: Handler = async ({ signal }) => {
      void gate.pass();
      await untilAborted(signal).catch(() => Promise.reject(new PermanentError('the call was interrupted')));
    };
    const jobId = await stage.act(handler, { maxAttempts: 1 });
    await gate.reached();
    await stage.millrace.cancel(jobId);
    expect(await stage.end(jobId)).toMatchObject({ state: 'cancelled', lastFailure: { category: 'CANCELLED' } });
  });

  it('leaves a result that the handler returns after its signal was aborted [GA-3.11]', async () => {
    const gate = new Gate();
    const jobId = await stage.act(({ signal }) => {
      void gate.pass();
      return untilAborted(signal).catch(() => 'finished the step');
    });
    await gate.reached();
    await stage.millrace.cancel(jobId);
    expect(await stage.end(jobId)).toMatchObject({ state: 'completed', result: { output: 'finished the step' } });
  });

  it('by force ends a handler that heeds nothing after a grace [GA-3.12]', async () => {
    const gate = new Gate();
    const jobId = await stage.act(() => gate.pass().then(() => 'too late'));
    await gate.reached();
    await stage.millrace.cancel(jobId, { force: true });
    expect((await stage.end(jobId)).state).toBe('cancelled');
    gate.open();
    expect((await stage.end(await stage.act(() => 1))).state).toBe('completed');
    expect((await stage.millrace.get(jobId))?.state).toBe('cancelled');
  });

  it('changes nothing about a job that has ended, and knows none that does not exist [GA-3.05] [GA-3.13]', async () => {
    const jobId = await stage.act(() => 1);
    await stage.end(jobId);
    expect(await stage.millrace.cancel(jobId)).toMatchObject({
      status: 'ALREADY_COMPLETE',
      previousState: 'completed',
    });
    expect((await stage.millrace.get(jobId))?.state).toBe('completed');
    expect(await stage.millrace.cancel(UNKNOWN)).toMatchObject({ status: 'NOT_FOUND', previousState: null });
    expect(await stage.millrace.cancel('not an id')).toMatchObject({ status: 'NOT_FOUND', previousState: null });
  });
});

describe('a handler that cancels cooperatively', () => {
  async function runCooperative(handler: Handler) {
    const millrace = await stage.open();
    millrace.register({ type: 'careful', cancellation: 'cooperative', handler });
    await millrace.start();
    const { jobId } = await millrace.submit({ type: 'careful', payload: {}, backoff: AT_ONCE });
    return { millrace, jobId };
  }

  it('keeps its signal after a plain request, and stops at its next checkpoint [GA-3.11] [AB-cancel.04]', async () => {
    const seen: boolean[] = [];
    const gate = new Gate();
    const { millrace, jobId } = await runCooperative(async (context) => {
      await gate.pass();
      await until('the handler sees the cancellation', () => context.isCancelled);
      seen.push(context.signal.aborted);
      await context.checkpoint({});
    });
    await gate.reached();
    await millrace.cancel(jobId);
    gate.open();
    expect((await stage.end(jobId)).state).toBe('cancelled');
    expect(seen).toEqual([false]);
  });

  it('is aborted by force [GA-3.12]', async () => {
    const gate = new Gate();
    const { millrace, jobId } = await runCooperative(({ signal }) => {
      void gate.pass();
      return untilAborted(signal);
    });
    await gate.reached();
    await millrace.cancel(jobId);
    await millrace.cancel(jobId, { force: true });
    expect((await stage.end(jobId)).state).toBe('cancelled');
  });

  it('is refused under another word', async () => {
    const millrace = await stage.open();
    const registration = { type: 'careful', cancellation: 'gentle' as 'abort', handler: () => 1 };
    expect(() => millrace.register(registration)).toThrow(/cancellation must be 'abort' or 'cooperative'/);
  });
});

describe('cancelMany', () => {
  it('counts what became of each job named [GA-3.17] [GA-3.22] [GA-3.23] [GA-3.24] [GA-3.25] [GA-3.26]', async () => {
    const ended = await stage.act(() => 1);
    await stage.end(ended);
    const waiting = await stage.act(() => 1, { delay: '1h' });
    const answer = await stage.millrace.cancelMany({ ids: [ended, waiting, UNKNOWN, 'not an id', waiting] });
    expect(answer).toMatchObject({ requested: 4, cancelled: 1, skipped: 1, failed: 2, dryRun: false });
    expect(answer.errors.map(({ jobId, code }) => [jobId, code])).toEqual([
      [UNKNOWN, 'NOT_FOUND'],
      ['not an id', 'NOT_FOUND'],
    ]);
  });

  it('takes what a filter finds, and in a dry run only counts [GA-3.18] [GA-3.21]', async () => {
    const tags = { sweep: 'yes' };
    const batch = Array.from({ length: 600 }, () => stage.acting(() => 1, { delay: '1h', tags }));
    await stage.millrace.submitMany(batch);
    const spared = await stage.act(() => 1, { delay: '1h', tags: { sweep: 'no' } });
    const filter = { tags, states: ['delayed'] as const };
    const preview = await stage.millrace.cancelMany({ filter }, { dryRun: true });
    expect(preview).toEqual({ requested: 600, cancelled: 600, skipped: 0, failed: 0, errors: [], dryRun: true });
    expect((await stage.millrace.search(filter)).totalCount).toBe(600);
    expect(await stage.millrace.cancelMany({ filter })).toMatchObject({
      requested: 600,
      cancelled: 600,
      dryRun: false,
    });
    expect((await stage.millrace.search(filter)).totalCount).toBe(0);
    expect((await stage.millrace.get(spared))?.state).toBe('delayed');
  });
});
