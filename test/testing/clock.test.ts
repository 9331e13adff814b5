import { expect, test } from 'vitest';
import { TemporaryError } from '../../src/index.ts';
import { openMill } from './opening.ts';

const states = (outcomes: readonly { state: string }[]) => outcomes.map(({ state }) => state);

test('a delayed job runs when the clock has been moved to its time, not before [GM-2.12] [GM-2.13]', async () => {
  const mill = await openMill();
  mill.register({ type: 'remind', handler: () => 'reminded' });
  const { jobId } = await mill.submit({ type: 'remind', payload: {}, delay: '1h' });
  expect(await mill.run()).toEqual([]);
  expect(await mill.advance('59m')).toEqual([]);
  expect((await mill.millrace.get(jobId))?.state).toBe('delayed');
  expect(await mill.advance('1m')).toEqual([{ jobId, type: 'remind', attempt: 1, state: 'completed', output: 'reminded' }]);
});

test('the clock stands until it is moved, and the ledger writes what it says', async () => {
  const startAt = new Date('2031-05-06T07:08:09.123Z');
  const mill = await openMill({ startAt });
  mill.register({ type: 'now', handler: () => null });
  const first = await mill.runJob('now', {});
  expect(first.createdAt).toEqual(startAt);
  expect(first.completedAt).toEqual(startAt);
  await mill.advance('PT90S');
  expect(mill.now()).toEqual(new Date('2031-05-06T07:09:39.123Z'));
  expect((await mill.runJob('now', {})).startedAt).toEqual(mill.now());
});

test('backoffs are jumped over at exactly their length: 1 s, 2 s, 4 s [GM-5.08] [GM-5.11]', async () => {
  const startAt = new Date('2031-01-01T00:00:00Z');
  const mill = await openMill({ startAt });
  const attempts: number[] = [];
  mill.register({
    type: 'flaky',
    maxAttempts: 4,
    backoff: { strategy: 'EXPONENTIAL', initialDelay: '1s', multiplier: 2, jitter: false },
    handler: ({ attempt }) => {
      attempts.push(attempt);
      throw new TemporaryError('not yet');
    },
  });
  const { jobId } = await mill.submit({ type: 'flaky', payload: {} });
  expect(states(await mill.fastForward())).toEqual(['retrying', 'retrying', 'retrying', 'dead_letter']);
  const history = (await mill.millrace.get(jobId, { includeHistory: true }))?.history ?? [];
  const starts = history.filter(({ to }) => to === 'running').map(({ at }) => at.getTime() - startAt.getTime());
  expect(starts).toEqual([0, 1_000, 3_000, 7_000]);
  expect(attempts).toEqual([1, 2, 3, 4]);
});

test('a retry that is not due waits for the clock however long the test takes [GM-2.17] [GM-2.19]', async () => {
  const mill = await openMill();
  mill.register({
    type: 'once-flaky',
    backoff: { initialDelay: '1ms', jitter: false },
    handler: ({ attempt }) => {
      if (attempt === 1) throw new Error('first time');
    },
  });
  const job = await mill.runJob('once-flaky', {});
  expect(job.state).toBe('retrying');
  expect(await mill.run()).toEqual([]);
  expect(states(await mill.advance('1ms'))).toEqual(['completed']);
});

test('a backoff of zero is due at once and runs in the same run', async () => {
  const mill = await openMill();
  mill.register({
    type: 'immediate',
    backoff: { strategy: 'CONSTANT', initialDelay: 0, jitter: false },
    handler: ({ attempt }) => {
      if (attempt < 3) throw new Error('again');
    },
  });
  await mill.submit({ type: 'immediate', payload: {} });
  expect(states(await mill.run())).toEqual(['retrying', 'retrying', 'completed']);
});

test('a job that outlives its lifetime goes to the dead letters when the clock passes it [GM-4.08]', async () => {
  const mill = await openMill();
  mill.register({ type: 'served', handler: () => null });
  const waiting = await mill.submit({ type: 'nobody-serves-this', payload: {} });
  expect(await mill.run()).toEqual([]);
  expect(await mill.advance('8d')).toMatchObject([
    { jobId: waiting.jobId, state: 'dead_letter', attempt: 0, failure: { code: 'LIFETIME_EXCEEDED' } },
  ]);
});

test('fastForward for a span fires every time of a recurring job in it; advance is one leap over missed ones', async () => {
  const mill = await openMill({ startAt: new Date('2031-01-01T00:00:30Z') });
  const fired: string[] = [];
  mill.register({ type: 'tick', handler: ({ createdAt }) => void fired.push(createdAt.toISOString().slice(11, 19)) });
  await mill.millrace.schedule('minutely', { cron: '* * * * *', submission: { type: 'tick', payload: {} } });
  await mill.fastForward('3m');
  expect(fired).toEqual(['00:01:00', '00:02:00', '00:03:00']);
  expect(mill.now().toISOString()).toBe('2031-01-01T00:03:30.000Z');
  await mill.advance('10m');
  expect(fired.slice(3)).toEqual(['00:13:30']);
});

test('fastForward ends when only recurring jobs are left', async () => {
  const mill = await openMill({ startAt: new Date('2031-01-01T00:00:30Z') });
  mill.register({ type: 'tick', handler: () => null });
  await mill.millrace.schedule('daily', { cron: '@daily', submission: { type: 'tick', payload: {} } });
  await mill.submit({ type: 'tick', payload: {}, delay: '1h' });
  expect(states(await mill.fastForward())).toEqual(['completed']);
  expect(mill.now().toISOString()).toBe('2031-01-01T01:00:30.000Z');
});
