import { describe, expect, it } from 'vitest';
import { PostponeError, TemporaryError } from '../../src/index.ts';
import { openMill } from '../testing/opening.ts';

const reasons = (history: readonly { from: string | null; to: string; reason: string }[] | undefined) =>
  (history ?? []).filter(({ from }) => from === 'running').map(({ to, reason }) => `${to}:${reason}`);

describe('a handler that postpones its job', () => {
  it('uses up no attempt, however often, and the job has no failure', async () => {
    const mill = await openMill();
    const postponed: number[] = [];
    mill.millrace.on('postponed', ({ delayMs }) => postponed.push(delayMs));
    mill.register({
      type: 'limited',
      maxAttempts: 100,
      handler: ({ attempt }) => {
        if (attempt <= 5) throw new PostponeError({ retryAfter: '30s' });
        return attempt;
      },
    });
    const first = await mill.runJob('limited', {});
    expect(first).toMatchObject({ state: 'retrying', lastFailure: null, attemptsStarted: 1, maxAttempts: 101 });
    const startMs = mill.now().getTime();
    await mill.fastForward();
    const job = await mill.millrace.get(first.id, { includeHistory: true });
    expect(job).toMatchObject({ state: 'completed', lastFailure: null, result: { output: 6 } });
    expect(reasons(job?.history)).toEqual([...Array(5).fill('retrying:postponed'), 'completed:succeeded']);
    expect(mill.now().getTime() - startMs).toBe(5 * 30_000);
    expect(postponed).toEqual(Array(5).fill(30_000));
    expect(await mill.millrace.failure(first.id)).toBeNull();
  });

  it('can name a time, and waits at least a second', async () => {
    const mill = await openMill();
    const waits = [new Date(Date.now() - 60_000), new Date(Date.now() + 3_600_000), 0];
    mill.register({
      type: 'later',
      handler: ({ attempt }) => {
        const retryAfter = waits[attempt - 1];
        if (retryAfter !== undefined) throw new PostponeError({ retryAfter });
      },
    });
    const delays: number[] = [];
    mill.millrace.on('postponed', ({ delayMs }) => delays.push(delayMs));
    await mill.submit({ type: 'later', payload: {} });
    await mill.fastForward();
    expect(delays[0]).toBe(1_001);
    expect(delays[1]).toBeGreaterThan(3_500_000);
    expect(delays[2]).toBe(1_003);
  });

  it('keeps the attempts for failures, and their backoff', async () => {
    const mill = await openMill();
    mill.register({
      type: 'mixed',
      maxAttempts: 2,
      backoff: { initialDelay: '10s', jitter: false },
      handler: ({ attempt }) => {
        if (attempt % 2 === 1) throw new PostponeError({ retryAfter: '1m' });
        throw new TemporaryError('not yet', { code: 'NOT_YET' });
      },
    });
    const { jobId } = await mill.submit({ type: 'mixed', payload: {} });
    const startMs = mill.now().getTime();
    await mill.fastForward();
    const job = await mill.millrace.get(jobId, { includeHistory: true });
    const expected = ['retrying:postponed', 'retrying:temporary_failure', 'retrying:postponed', 'dead_letter:attempts_exhausted'];
    expect(reasons(job?.history)).toEqual(expected);
    expect(job?.lastFailure).toMatchObject({ code: 'NOT_YET' });
    expect(mill.now().getTime() - startMs).toBe(60_000 + 10_000 + 60_000);
    const details = await mill.millrace.failure(jobId, { includeAllAttempts: true });
    expect(details?.attempts?.map(({ result }) => result)).toEqual([null, 'FAILURE', null, 'FAILURE']);
  });

  it('ends the job if it would outlive its lifetime', async () => {
    const mill = await openMill();
    mill.register({
      type: 'patient',
      handler: () => {
        throw new PostponeError({ retryAfter: '8d' });
      },
    });
    const job = await mill.runJob('patient', {});
    const message = 'the handler postponed the job by P8D, which is beyond the end of its lifetime';
    expect(job).toMatchObject({ state: 'dead_letter', lastFailure: { code: 'LIFETIME_EXCEEDED', message } });
    expect(reasons(job.history)).toEqual(['dead_letter:lifetime_exceeded']);
  });

  it('cannot do so once the job is cancelled', async () => {
    const mill = await openMill();
    mill.register({
      type: 'cancelled',
      handler: async ({ jobId }) => {
        await mill.millrace.cancel(jobId);
        throw new PostponeError({ retryAfter: '1m' });
      },
    });
    expect(await mill.runJob('cancelled', {})).toMatchObject({ state: 'cancelled', attemptsStarted: 1 });
  });

  it('is told what is wrong with a wait that it gives', () => {
    expect(() => new PostponeError({ retryAfter: new Date(Number.NaN) })).toThrow('retryAfter is not a valid Date');
    expect(() => new PostponeError({ retryAfter: 'soon' })).toThrow(/retryAfter/);
    expect(() => new PostponeError({} as { retryAfter: string })).toThrow(/retryAfter/);
    expect(() => new PostponeError({ retryAfter: 1, delay: 1 } as { retryAfter: number })).toThrow(/delay/);
  });
});

describe('a temporary error that does not count', () => {
  it('is a failure that uses up no attempt', async () => {
    const mill = await openMill();
    mill.register({
      type: 'throttled',
      maxAttempts: 1,
      handler: ({ attempt }) => {
        if (attempt < 4) throw new TemporaryError('slow down', { retryAfter: '20s', countsAsAttempt: false });
        throw new TemporaryError('broken', { retryAfter: '20s', countsAsAttempt: true });
      },
    });
    const { jobId } = await mill.submit({ type: 'throttled', payload: {} });
    const outcomes = await mill.fastForward();
    expect(outcomes.map(({ state }) => state)).toEqual(['retrying', 'retrying', 'retrying', 'dead_letter']);
    expect(outcomes[0]).toMatchObject({ failure: { message: 'slow down' } });
    const job = await mill.millrace.get(jobId, { includeHistory: true });
    expect(reasons(job?.history).at(-1)).toBe('dead_letter:attempts_exhausted');
  });
});
