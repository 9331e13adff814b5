import { describe, expect, it } from 'vitest';
import { PermanentError } from '../../src/index.ts';
import { Gate, useStage } from './fixture.ts';

const stage = useStage();
const UNKNOWN = '7b1f6dd2-7e7f-4a9b-8d1e-5d0c0f3c9a11';

describe('retry', () => {
  it('gives a dead-lettered job one more attempt [GA-4.36] [GA-4.41] [GA-4.42] [GA-4.43] [GA-4.44]', async () => {
    const jobId = await stage.act(({ attempt }) => (attempt < 3 ? Promise.reject(new Error('no')) : attempt), {
      maxAttempts: 2,
    });
    expect((await stage.end(jobId)).state).toBe('dead_letter');
    expect(await stage.millrace.retry(jobId)).toMatchObject({
      jobId,
      status: 'QUEUED',
      newState: 'scheduled',
      scheduledFor: expect.any(Date),
    });
    expect(await stage.end(jobId)).toMatchObject({ state: 'completed', attemptsStarted: 3, maxAttempts: 3 });
    expect(await stage.path(jobId)).toContain('dead_letter>scheduled:manual_retry');
  });

  it('may begin the count anew [GA-4.38]', async () => {
    const seen: number[] = [];
    const jobId = await stage.act(
      ({ attempt }) => {
        seen.push(attempt);
        throw new Error('no');
      },
      { maxAttempts: 2 },
    );
    await stage.end(jobId);
    await stage.millrace.retry(jobId, { resetAttempts: true });
    expect((await stage.end(jobId)).state).toBe('dead_letter');
    expect(seen).toEqual([1, 2, 1, 2]);
    const details = await stage.millrace.failure(jobId, { includeAllAttempts: true });
    expect(details?.attempts?.map(({ attempt }) => attempt)).toEqual([1, 2, 1, 2]);
    expect(new Set(details?.attempts?.map(({ round }) => round)).size).toBe(2);
    expect(new Set(details?.attempts?.map(({ attemptId }) => attemptId)).size).toBe(4);
  });

  it('may wait and change the priority [GA-4.39] [GA-4.40]', async () => {
    const jobId = await stage.act(() => Promise.reject(new PermanentError('no')), { priority: 'LOW' });
    await stage.end(jobId);
    const answer = await stage.millrace.retry(jobId, { delay: '1h', priority: 'HIGH' });
    expect(answer).toMatchObject({ status: 'QUEUED', newState: 'delayed' });
    expect(await stage.millrace.get(jobId)).toMatchObject({ state: 'delayed', priority: 'HIGH', completedAt: null });
  });

  it('refuses a job that has not failed, and a job that does not exist [GA-4.42]', async () => {
    const jobId = await stage.act(() => 1);
    await stage.end(jobId);
    expect(await stage.millrace.retry(jobId)).toMatchObject({ status: 'NOT_RETRIABLE', newState: 'completed' });
    expect(await stage.millrace.retry(UNKNOWN)).toMatchObject({ status: 'NOT_FOUND', newState: null });
    expect(await stage.millrace.retry('not an id')).toMatchObject({ status: 'NOT_FOUND' });
  });

  it('refuses words it does not know', async () => {
    const jobId = await stage.act(() => Promise.reject(new PermanentError('no')));
    await stage.end(jobId);
    await expect(stage.millrace.retry(jobId, { delay: 'soon' })).rejects.toMatchObject({
      details: [{ field: 'delay' }],
    });
    await expect(stage.millrace.retry(jobId, { priority: 'URGENT' as 'HIGH' })).rejects.toMatchObject({
      details: [{ field: 'priority' }],
    });
  });

  it('does not revive what failed with the job', async () => {
    const gate = new Gate();
    const first = await stage.act(({ attempt }) => gate.pass().then(() => (attempt === 1 ? Promise.reject(new PermanentError('no')) : 1)));
    const second = await stage.act(() => 1, { dependsOn: [first] });
    gate.open();
    expect((await stage.end(second)).state).toBe('failed');
    await stage.millrace.retry(first);
    expect((await stage.end(first)).state).toBe('completed');
    expect((await stage.millrace.get(second))?.state).toBe('failed');
    expect((await stage.millrace.retry(second)).status).toBe('QUEUED');
    expect((await stage.end(second)).state).toBe('completed');
  });
});

describe('failure', () => {
  it('tells why, when, where and by whom [GA-4.03] [GA-4.04] [GA-4.05] [GA-4.06] [GA-4.07] [GA-4.09] [GA-4.13] [GA-4.14] [GA-4.15] [GA-4.16] [GA-4.18]', async () => {
    const error = Object.assign(new PermanentError('no stock', { code: 'STOCK' }), {
      context: { sku: 'x-1', password: 'p' },
    });
    const jobId = await stage.act(() => Promise.reject(error));
    await stage.end(jobId);
    const details = await stage.millrace.failure(jobId);
    expect(details).toMatchObject({ jobId, type: 'act', finalState: 'failed', totalAttempts: 1 });
    expect(details?.failure).toMatchObject({ category: 'PERMANENT', code: 'STOCK', message: 'no stock', attempt: 1 });
    expect(details?.failure.stackTrace).toContain('PermanentError');
    expect(details?.failure.context?.sku).toBe('x-1');
    expect(details?.failure.context?.password).not.toBe('p');
    expect(details?.failure.host).toBeTruthy();
    expect(details?.attempts).toBeUndefined();
  });

  it('lists every attempt on request [GA-4.02] [GA-4.08] [GA-4.19] [GA-4.22] [GA-4.23]', async () => {
    const jobId = await stage.act(({ attempt }) => Promise.reject(new Error(`try ${attempt}`)));
    await stage.end(jobId);
    const details = await stage.millrace.failure(jobId, { includeAllAttempts: true });
    expect(details).toMatchObject({ finalState: 'dead_letter', totalAttempts: 3 });
    expect(details?.attempts?.map(({ attempt, result, failure }) => [attempt, result, failure?.message])).toEqual([
      [1, 'FAILURE', 'try 1'],
      [2, 'FAILURE', 'try 2'],
      [3, 'FAILURE', 'try 3'],
    ]);
  });

  it('is null for a job that never failed, or is not there', async () => {
    const jobId = await stage.act(() => 1);
    await stage.end(jobId);
    expect(await stage.millrace.failure(jobId)).toBeNull();
    expect(await stage.millrace.failure(UNKNOWN)).toBeNull();
    expect(await stage.millrace.failure('not an id')).toBeNull();
  });
});
