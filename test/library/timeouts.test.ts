import { describe, expect, it } from 'vitest';
import { JobTimeoutError, type JobView } from '../../src/index.ts';
import { openMill } from '../testing/opening.ts';
import { until } from '../until.ts';
import { Gate, untilAborted, useStage } from './fixture.ts';

const stage = useStage();

describe('the execution timeout', () => {
  it('ends the attempt as TIMEOUT and retries it [GM-4.05] [GM-4.06] [GM-4.11] [GM-5.12] [GM-8.04]', async () => {
    let reason: unknown;
    const jobId = await stage.act(
      async ({ attempt, signal }) => {
        if (attempt > 1) return 'in time';
        return untilAborted(signal).catch((error) => {
          reason = error;
          throw error;
        });
      },
      { timeout: '100ms', maxAttempts: 100 },
    );
    const job = await stage.end(jobId);
    expect(job).toMatchObject({ state: 'completed', result: { output: 'in time' } });
    expect(reason).toBeInstanceOf(JobTimeoutError);
    const path = await stage.path(jobId);
    expect(path).toContain('running>retrying:timed_out');
    // On a busy machine, a later attempt may be too late as well.
    expect(path.filter((step) => step === 'scheduled>running:started')).toHaveLength(job.attemptsStarted);
  });

  it('ends the attempt of a handler that heeds nothing, and what that one says later is refused [GM-4.05]', async () => {
    const gate = new Gate();
    const jobId = await stage.act(
      async ({ attempt }) => {
        if (attempt > 1) return 'second';
        await gate.pass();
        return 'too late';
      },
      { timeout: '100ms', maxAttempts: 100 },
    );
    const job = await stage.end(jobId);
    gate.open();
    expect(job).toMatchObject({ state: 'completed', result: { output: 'second', attempt: job.attemptsStarted } });
    const after = await stage.end(await stage.act(() => 'a job later'));
    expect(after.state).toBe('completed');
    expect((await stage.millrace.get(jobId))?.result?.output).toBe('second');
  });

  it('dead-letters the job when attempts are used up [GM-4.06]', async () => {
    const jobId = await stage.act(({ signal }) => untilAborted(signal), { timeout: '50ms', maxAttempts: 2 });
    const job = await stage.end(jobId);
    expect(job).toMatchObject({ state: 'dead_letter', attemptsStarted: 2 });
    expect(job.lastFailure).toMatchObject({ category: 'TIMEOUT', code: 'EXECUTION_TIMEOUT' });
  });

  it('is not retried where that is turned off [GM-4.06] [GM-8.04]', async () => {
    const millrace = await stage.open({ defaults: { retryOnTimeout: false } });
    millrace.register({ type: 'untried', timeout: '50ms', handler: ({ signal }) => untilAborted(signal) });
    await millrace.start();
    const { jobId } = await millrace.submit({ type: 'untried', payload: {} });
    expect(await millrace.waitFor(jobId)).toMatchObject({
      state: 'failed',
      attemptsStarted: 1,
      lastFailure: { category: 'TIMEOUT' },
    });
  });

  it('is half an hour unless said otherwise [GM-4.01]', async () => {
    const job = await stage.end(await stage.act(({ deadline }) => deadline.getTime() - Date.now()));
    expect(job.result?.output).toBeGreaterThan(29 * 60_000);
    expect(job.result?.output).toBeLessThanOrEqual(30 * 60_000);
  });
});

describe('the total lifetime', () => {
  it('is seven days from submission [GM-4.04]', async () => {
    const job = await stage.end(await stage.act(() => 1));
    expect((job.lifetimeDeadlineAt as Date).getTime() - job.createdAt.getTime()).toBe(7 * 86_400_000);
  });

  it('ends a running attempt and dead-letters the job [GM-4.08] [GM-4.13]', async () => {
    const millrace = await stage.open();
    millrace.register({ type: 'brief', lifetime: '300ms', handler: ({ signal }) => untilAborted(signal) });
    await millrace.start();
    const { jobId } = await millrace.submit({ type: 'brief', payload: {} });
    const job = await millrace.waitFor(jobId);
    expect(job).toMatchObject({
      state: 'dead_letter',
      lastFailure: { category: 'TIMEOUT', code: 'LIFETIME_EXCEEDED' },
    });
  });

  it('refuses a start that lies beyond it', async () => {
    for (const member of [{ delay: '8d' }, { scheduledAt: new Date(Date.now() + 8 * 86_400_000).toISOString() }]) {
      await expect(stage.millrace.submit({ type: 'far', payload: {}, ...member })).rejects.toMatchObject({
        details: [{ field: Object.keys(member)[0], code: 'BEYOND_LIFETIME' }],
      });
    }
  });

  it('is as long as the submission says, and counts from there [GM-4.04] [GM-4.13]', async () => {
    const mill = await openMill();
    mill.register({ type: 'far', lifetime: '1d', handler: () => 'ran' });
    const { jobId } = await mill.submit({ type: 'far', payload: {}, delay: '30d', lifetime: '31d' });
    const job = (await mill.millrace.get(jobId)) as JobView;
    expect((job.lifetimeDeadlineAt as Date).getTime() - job.createdAt.getTime()).toBe(31 * 86_400_000);
    await mill.fastForward();
    expect(await mill.millrace.get(jobId)).toMatchObject({ state: 'completed', result: { output: 'ran' } });
  });

  it('gives up when the next attempt would come after it [GM-2.20]', async () => {
    const millrace = await stage.open();
    const backoff = { initialDelay: '1h' };
    millrace.register({ type: 'mortal', lifetime: '30m', backoff, handler: () => Promise.reject(new Error('no')) });
    await millrace.start();
    const { jobId } = await millrace.submit({ type: 'mortal', payload: {} });
    const job = await millrace.waitFor(jobId);
    expect(job).toMatchObject({ state: 'dead_letter', attemptsStarted: 1 });
    expect((await millrace.get(jobId, { includeHistory: true }))?.history?.at(-1)?.reason).toBe('lifetime_exceeded');
  });
});

describe('the submission timeout', () => {
  it('answers a caller within 30 seconds also while the database cannot take the job [GM-4.03]', async () => {
    const client = await stage.connect();
    const millrace = await stage.open();
    await client.query('BEGIN');
    await client.query('LOCK TABLE millrace.jobs IN SHARE ROW EXCLUSIVE MODE');
    const beganMs = performance.now();
    await expect(millrace.submit({ type: 'blocked', payload: {} })).rejects.toThrow();
    expect(performance.now() - beganMs).toBeLessThan(30_000);
    await client.query('ROLLBACK');
    expect((await millrace.submit({ type: 'blocked', payload: {} })).status).toBe('ACCEPTED');
  });
});

describe('backoff', () => {
  const delays = async (backoff: object, attempts: number): Promise<number[]> => {
    const failed = new Map<number, number>();
    const stop = stage.millrace.on('failed', ({ jobId: id, attempt, delayMs }) => {
      if (id === jobId && delayMs !== null) failed.set(attempt, delayMs);
    });
    let jobId = '';
    const gate = new Gate();
    jobId = await stage.act(
      async () => {
        await gate.pass();
        throw new Error('again');
      },
      { backoff: { jitter: false, ...backoff }, maxAttempts: attempts },
    );
    gate.open();
    await stage.end(jobId);
    // An attempt is told when the response of its statement arrives, which may be after the next attempt.
    await until('all retries were told', () => failed.size, attempts - 1);
    stop();
    return Array.from({ length: attempts - 1 }, (_, index) => failed.get(index + 1) as number);
  };

  it('grows by the strategy chosen and stops at the maximum [GM-5.06] [GM-5.07] [GM-5.08]', async () => {
    expect(await delays({ strategy: 'CONSTANT', initialDelay: '2ms' }, 4)).toEqual([2, 2, 2]);
    expect(await delays({ strategy: 'LINEAR', initialDelay: '2ms', maxDelay: '5ms' }, 4)).toEqual([2, 4, 5]);
    expect(await delays({ strategy: 'EXPONENTIAL', initialDelay: '2ms', maxDelay: '9ms', multiplier: 2 }, 5)).toEqual([2, 4, 8, 9]);
  });

  it('may be a function of the application [GM-5.09]', async () => {
    const millrace = await stage.open();
    const asked: unknown[] = [];
    millrace.register({
      ...{ type: 'custom', maxAttempts: 3, handler: () => Promise.reject(new Error('again')) },
      backoff: (...given) => {
        asked.push(given);
        return 1;
      },
    });
    await millrace.start();
    const { jobId } = await millrace.submit({ type: 'custom', payload: {} });
    await millrace.waitFor(jobId);
    expect(asked).toHaveLength(2);
    await expect(millrace.submit({ type: 'nobody', payload: {}, backoff: { strategy: 'CUSTOM' } })).rejects.toMatchObject({
      details: [{ field: 'backoff.strategy' }],
    });
  });

  it('that is a function can be asked for by name while a worker lives that has it [GA-1.17]', async () => {
    const type = 'custom-elsewhere';
    const millrace = await stage.open();
    millrace.register({ type, handler: () => 1, backoff: () => 1 });
    await millrace.start();
    const named = { type, payload: {}, backoff: { strategy: 'CUSTOM' } } as const;
    const submit = () =>
      stage.millrace.submit(named).then(
        ({ status }) => status,
        (error) => error.details[0].code,
      );
    await until('the submission is accepted', () => submit(), 'ACCEPTED');
    await millrace.close({ grace: 0 });
    await until('the submission is refused', () => submit(), 'CUSTOM_BACKOFF_UNKNOWN');
    expect((await stage.millrace.submit({ type, payload: {} })).status).toBe('ACCEPTED');
  });

  it('by default begins at one second, doubles and varies by a tenth [GM-5.02] [GM-5.03] [GM-5.05] [GM-5.15] [GM-5.16]', async () => {
    const heard: { jobId: string; attempt: number; delayMs: number | null }[] = [];
    const stop = stage.millrace.on('failed', (event) => heard.push(event));
    const submission = { backoff: undefined, maxAttempts: 2 };
    const ids = await Promise.all(Array.from({ length: 8 }, () => stage.act(() => Promise.reject(new Error('x')), submission)));
    // Other jobs, and second attempts after a second, are told too.
    const delays = () => heard.filter(({ jobId, attempt }) => ids.includes(jobId) && attempt === 1).map(({ delayMs }) => delayMs ?? 0);
    await until('eight events have been received', () => delays().length, 8);
    stop();
    await stage.millrace.cancelMany({ ids });
    expect(delays().filter((ms) => ms < 900 || ms > 1_100)).toEqual([]);
    expect(new Set(delays()).size).toBeGreaterThan(1);
  });
});
