import { describe, expect, it } from 'vitest';
import { JOB_STATES, PermanentError, PRIORITIES, TemporaryError } from '../../src/index.ts';
import { until } from '../until.ts';
import { Gate, useStage } from './fixture.ts';

const stage = useStage();

describe('the model', () => {
  it('has the states and priorities of its definition, and cancelled in addition [GM-0.01] [GM-0.02] [GM-2.10]', () => {
    const defined = ['PENDING', 'SCHEDULED', 'DELAYED', 'RUNNING', 'COMPLETED', 'FAILED', 'RETRYING', 'DEAD_LETTER'];
    expect(JOB_STATES.map((state) => state.toUpperCase()).sort()).toEqual([...defined, 'CANCELLED'].sort());
    expect(PRIORITIES).toEqual(['CRITICAL', 'HIGH', 'NORMAL', 'LOW', 'BULK']);
  });
});

describe('a job', () => {
  it('that may run at once is scheduled, runs and is completed with its result [GM-2.03] [GM-2.05] [GM-2.06] [GM-2.11] [GM-2.14] [GM-2.15]', async () => {
    const submitted = await stage.millrace.submit(stage.acting(() => ({ answer: 42 })));
    expect(submitted).toMatchObject({ status: 'ACCEPTED', state: 'scheduled' });
    const job = await stage.end(submitted.jobId);
    expect(job).toMatchObject({ state: 'completed', attempt: 1 });
    expect(job.result).toMatchObject({ status: 'SUCCESS', output: { answer: 42 }, error: null, attempt: 1 });
    expect(await stage.path(submitted.jobId)).toEqual([
      'pending>scheduled:submitted',
      'scheduled>running:started',
      'running>completed:succeeded',
    ]);
  });

  it('with a delay is delayed until it has passed [GM-2.04] [GM-2.12] [GM-2.13]', async () => {
    const submitted = await stage.millrace.submit(stage.acting(() => Date.now(), { delay: '300ms' }));
    expect(submitted.state).toBe('delayed');
    const job = await stage.end(submitted.jobId);
    expect(job.startedAt?.getTime()).toBeGreaterThanOrEqual(job.createdAt.getTime() + 300);
    expect((await stage.path(submitted.jobId)).slice(0, 3)).toEqual([
      'pending>delayed:submitted',
      'delayed>scheduled:delay_elapsed',
      'scheduled>running:started',
    ]);
  });

  it('with a time runs then, and at once when that has passed [GM-2.04]', async () => {
    const at = new Date(Date.now() + 3_600_000);
    const future = await stage.millrace.submit(stage.acting(() => 1, { scheduledAt: at.toISOString() }));
    const past = await stage.millrace.submit(stage.acting(() => 1, { scheduledAt: '2001-01-01T00:00:00Z' }));
    expect([future.state, past.state]).toEqual(['delayed', 'scheduled']);
    await stage.ledger.moveClock(3_600_000);
    expect((await stage.end(future.jobId)).startedAt?.getTime()).toBeGreaterThanOrEqual(at.getTime());
    expect((await stage.end(past.jobId)).state).toBe('completed');
  });

  it('whose handler fails for good is failed, without another attempt [GM-2.07] [GM-2.16] [GM-8.03] [GM-8.18] [GM-8.22] [GM-8.23] [GM-8.24]', async () => {
    const jobId = await stage.act(() => {
      throw new PermanentError('no such account', { code: 'ACCOUNT_GONE', cause: new Error('404') });
    });
    const job = await stage.end(jobId);
    expect(job).toMatchObject({ state: 'failed', attemptsStarted: 1 });
    expect(job.result).toMatchObject({
      status: 'FAILURE',
      error: { category: 'PERMANENT', code: 'ACCOUNT_GONE', message: 'no such account' },
    });
    expect((await stage.path(jobId)).at(-1)).toBe('running>failed:permanent_failure');
  });

  it('whose handler fails for now is retried after its backoff [GM-2.08] [GM-2.17] [GM-2.19] [GM-8.02] [GM-8.19]', async () => {
    const jobId = await stage.act(({ attempt }) => {
      if (attempt === 1) throw new TemporaryError('busy');
      return attempt;
    });
    const job = await stage.end(jobId);
    expect(job).toMatchObject({ state: 'completed', attempt: 2, result: { output: 2, attempt: 2 } });
    expect((await stage.path(jobId)).slice(2, 5)).toEqual([
      'running>retrying:temporary_failure',
      'retrying>scheduled:backoff_elapsed',
      'scheduled>running:started',
    ]);
  });

  it('rests in retrying while its backoff lasts [GM-2.08]', async () => {
    const jobId = await stage.act(() => Promise.reject(new Error('later')), { backoff: { initialDelay: '1h' } });
    await until('the job waits for its retry', async () => (await stage.millrace.get(jobId))?.state, 'retrying');
    const job = await stage.millrace.get(jobId);
    expect(job?.scheduledFor?.getTime()).toBeGreaterThan(Date.now() + 50 * 60_000);
    expect(job?.completedAt).toBeNull();
  });

  it('whose attempts are used up is dead-lettered [GM-2.09] [GM-2.18] [GM-5.01]', async () => {
    const jobId = await stage.act(() => {
      throw new TemporaryError('still busy');
    });
    const job = await stage.end(jobId);
    expect(job).toMatchObject({ state: 'dead_letter', attemptsStarted: 3, maxAttempts: 3 });
    expect((await stage.path(jobId)).at(-1)).toBe('running>dead_letter:attempts_exhausted');
  });

  it('counts an attempt when it starts, not when it ends [GM-5.11] [GM-10.05]', async () => {
    const gate = new Gate();
    const jobId = await stage.act(() => gate.pass());
    await gate.reached();
    expect(await stage.millrace.get(jobId)).toMatchObject({ state: 'running', attempt: 1, attemptsStarted: 1 });
    gate.open();
    expect(await stage.end(jobId)).toMatchObject({ attempt: 1, attemptsStarted: 1 });
  });

  it('carries its system metadata, stamped as it moves [GM-10.01] [GM-10.02] [GM-10.03] [GM-10.04] [GM-10.06] [GM-10.07] [GM-10.08]', async () => {
    const submitted = await stage.millrace.submit(stage.acting(() => 1));
    const job = await stage.end(submitted.jobId);
    const { id, state, createdAt, scheduledAt, startedAt, completedAt, updatedAt } = job;
    expect({ id, state }).toEqual({ id: submitted.jobId, state: 'completed' });
    const times = [createdAt, scheduledAt, startedAt, completedAt].map((at) => at?.getTime() ?? Number.NaN);
    expect(times).toEqual(times.toSorted((a, b) => a - b));
    expect(updatedAt).toEqual(completedAt);
    expect(Math.abs(createdAt.getTime() - submitted.createdAt.getTime())).toBeLessThan(2);
  });

  it('takes none of that from a client [GM-10.09] [GM-1.03]', async () => {
    for (const member of ['id', 'createdAt', 'updatedAt', 'state', 'attempt', 'startedAt', 'completedAt']) {
      const forged = { ...stage.acting(() => 1), [member]: '00000000-0000-4000-8000-000000000001' };
      await expect(stage.millrace.submit(forged)).rejects.toMatchObject({
        details: [{ field: member, code: 'READ_ONLY_MEMBER' }],
      });
    }
  });

  it('carries the metadata of its submitter [GM-10.10] [GM-10.11] [GM-10.12] [GM-10.13] [GM-10.14]', async () => {
    const given = {
      priority: 'LOW',
      tags: { a: 'b' },
      correlationId: 'c-1',
      callbackUrl: 'https://example.org/done',
    } as const;
    const job = await stage.end(await stage.act(() => 1, given));
    expect(job).toMatchObject({ type: 'act', ...given });
  });
});

describe('what a handler throws', () => {
  const failureOf = async (error: unknown) => {
    const jobId = await stage.act(() => Promise.reject(error), { maxAttempts: 1 });
    return (await stage.end(jobId)).lastFailure;
  };

  it('falls into one category by its kind [GM-8.01] [GM-8.08] [GM-8.16]', async () => {
    const withStatus = (status: number) => Object.assign(new Error(`status ${status}`), { status });
    expect(await failureOf(withStatus(503))).toMatchObject({ category: 'TEMPORARY' });
    expect(await failureOf(withStatus(400))).toMatchObject({ category: 'PERMANENT' });
    expect(await failureOf(new Error('who knows'))).toMatchObject({
      category: 'TEMPORARY',
      code: 'UNCLASSIFIED_ERROR',
    });
    expect(await failureOf('a bare string')).toMatchObject({ category: 'TEMPORARY', message: 'a bare string' });
  });

  it('may say when to come back [GM-8.20] [GM-8.21]', async () => {
    const jobId = await stage.act(({ attempt }) => {
      if (attempt === 1) throw new TemporaryError('limit', { retryAfter: { ms: 400 }, cause: { code: 'RATE_LIMITED' } });
    });
    const job = await stage.end(jobId);
    const history = (await stage.millrace.get(jobId, { includeHistory: true }))?.history ?? [];
    const failedAt = history.find(({ to }) => to === 'retrying')?.at as Date;
    expect(job.startedAt?.getTime()).toBeGreaterThanOrEqual(failedAt.getTime() + 400);
    expect(job.lastFailure?.code).toBe('RATE_LIMITED');
  });
});

describe('a result', () => {
  it('may be nothing, any JSON value, or bytes', async () => {
    const outputs = await Promise.all(
      [undefined, 7, ['a'], new Uint8Array([1, 2])].map(async (value) => {
        const job = await stage.end(await stage.act(() => value));
        return job.result?.output;
      }),
    );
    expect(outputs.slice(0, 3)).toEqual([null, 7, ['a']]);
    expect([...(outputs[3] as Uint8Array)]).toEqual([1, 2]);
  });

  it('that cannot be stored fails the job for good', async () => {
    const job = await stage.end(await stage.act(() => ({ big: 10n })));
    expect(job).toMatchObject({ state: 'failed', lastFailure: { category: 'PERMANENT', code: 'NOT_SERIALIZABLE' } });
  });
});
