import { expect, test } from 'vitest';
import type { JobContext } from '../../src/index.ts';
import { until } from '../until.ts';
import { openMill } from './opening.ts';

test('the context tells a handler which job it has and when it must be done [GA-5.13] [GA-5.14] [GA-5.16] [GA-5.17] [GA-5.18] [GA-5.19] [GM-7.04] [GM-7.05]', async () => {
  const mill = await openMill({ startAt: new Date('2031-01-01T00:00:00Z') });
  let seen: Partial<JobContext> = {};
  let leftMs = 0;
  mill.register({
    type: 'look',
    timeout: '90s',
    handler: ({ jobId, type, createdAt, correlationId, tags, deadline, isCancelled, idempotencyKey }) => {
      seen = { jobId, type, createdAt, correlationId, tags, isCancelled, idempotencyKey };
      leftMs = deadline.getTime() - Date.now();
    },
  });
  const job = await mill.runJob('look', {}, { tags: { a: 'b' }, correlationId: 'trace-1', idempotencyKey: 'key-1' });
  expect(seen).toEqual({
    jobId: job.id,
    type: 'look',
    createdAt: mill.now(),
    correlationId: 'trace-1',
    tags: { a: 'b' },
    isCancelled: false,
    idempotencyKey: 'key-1',
  });
  expect(leftMs).toBeGreaterThan(60_000);
  expect(leftMs).toBeLessThanOrEqual(90_000);
});

test('attempts are numbered, have ids of their own and name the one before [GA-5.15] [GM-7.06] [GM-7.07] [GM-7.08]', async () => {
  const mill = await openMill();
  const seen: Pick<JobContext, 'attempt' | 'attemptId' | 'previousAttemptId' | 'idempotencyKey' | 'leaseToken'>[] = [];
  mill.register({
    type: 'look',
    handler: ({ attempt, attemptId, previousAttemptId, idempotencyKey, leaseToken }) => {
      seen.push({ attempt, attemptId, previousAttemptId, idempotencyKey, leaseToken });
      if (attempt < 3) throw new Error('again');
    },
  });
  await mill.submit({ type: 'look', payload: {} });
  await mill.fastForward();
  const ids = seen.map((each) => each.attemptId);
  expect(seen.map((each) => each.attempt)).toEqual([1, 2, 3]);
  expect(new Set(ids).size).toBe(3);
  expect(seen.map((each) => each.previousAttemptId)).toEqual([null, ids[0], ids[1]]);
  expect(new Set(seen.map((each) => each.idempotencyKey)).size).toBe(1);
  expect(seen.map((each) => each.leaseToken)).toEqual(seen.map((each) => each.leaseToken).toSorted((a, b) => a - b));
});

test('a handler logs, reports its progress and leaves a checkpoint for the next attempt [GA-5.21] [GA-5.22] [GA-5.23] [GA-5.25]', async () => {
  const mill = await openMill();
  const logged: unknown[] = [];
  mill.millrace.on('log', ({ level, message, fields, attempt }) => logged.push({ level, message, fields, attempt }));
  mill.register({
    type: 'work',
    handler: async (context) => {
      const left = await context.lastCheckpoint<Uint8Array>();
      if (left !== null) return [...left];
      await context.checkpoint(Uint8Array.of(1, 2, 3));
      await context.reportProgress(40, 'almost half');
      context.log('warn', 'about to fail', { why: 'test' });
      throw new Error('half-way');
    },
  });
  const job = await mill.runJob('work', {});
  expect(job.progress).toMatchObject({ percent: 40, message: 'almost half' });
  expect(logged).toEqual([{ level: 'warn', message: 'about to fail', fields: { why: 'test' }, attempt: 1 }]);
  expect(await mill.fastForward()).toMatchObject([{ state: 'completed', output: [1, 2, 3] }]);
});

test('children spawned under a key are found again, not made twice, by the next attempt [GA-5.24]', async () => {
  const mill = await openMill();
  const children = new Set<string>();
  mill.register({ type: 'child', handler: () => null });
  mill.register({
    type: 'parent',
    handler: async (context) => {
      const idempotencyKey = `${context.jobId}:child`;
      children.add(await context.spawn({ type: 'child', payload: {}, idempotencyKey }, { join: true }));
      if (context.attempt === 1) throw new Error('after the spawn');
    },
  });
  const { jobId } = await mill.submit({ type: 'parent', payload: {} });
  await mill.fastForward();
  expect(children.size).toBe(1);
  expect((await mill.millrace.get([...children][0] as string))?.parentId).toBe(jobId);
  expect((await mill.millrace.get(jobId))?.state).toBe('completed');
});

test('a request to cancel shows in the context; a handler that goes on to its end completes [GA-5.20]', async () => {
  const mill = await openMill();
  mill.register({
    type: 'stubborn',
    handler: async (context) => {
      const before = context.isCancelled;
      await mill.millrace.cancel(context.jobId);
      await until('the context shows the request', () => context.isCancelled);
      return { before, after: context.isCancelled };
    },
  });
  const job = await mill.runJob('stubborn', {});
  expect(job).toMatchObject({ state: 'completed', result: { output: { before: false, after: true } } });
});

test('a handler that was asked to stop is cancelled at its next checkpoint and not tried again [GM-8.05]', async () => {
  const mill = await openMill();
  mill.register({
    type: 'obedient',
    handler: async (context) => {
      await mill.millrace.cancel(context.jobId, { reason: 'enough' });
      await context.checkpoint({ row: 1 });
    },
  });
  await mill.submit({ type: 'obedient', payload: {} });
  expect(await mill.fastForward()).toMatchObject([{ state: 'cancelled', attempt: 1, failure: { category: 'CANCELLED' } }]);
});
