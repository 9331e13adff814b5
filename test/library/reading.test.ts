import { describe, expect, it } from 'vitest';
import { PermanentError } from '../../src/index.ts';
import { until } from '../until.ts';
import { Gate, useStage } from './fixture.ts';

const stage = useStage();
const UNKNOWN = '7b1f6dd2-7e7f-4a9b-8d1e-5d0c0f3c9a11';

describe('get', () => {
  it('returns null for an id that is not a job of the org', async () => {
    const elsewhere = await stage.open({ org: await stage.ledger.newOrg() });
    const { jobId } = await elsewhere.submit({ type: 'x', payload: {} });
    for (const id of [jobId, UNKNOWN, 'not an id', '']) expect(await stage.millrace.get(id)).toBeNull();
  });

  it('gives result and history where they are asked for [GA-2.02] [GA-2.03] [GA-2.14] [GA-2.15] [GA-2.31] [GA-2.32] [GA-2.33] [GA-2.34]', async () => {
    const jobId = await stage.act(() => 'r');
    await stage.end(jobId);
    const bare = await stage.millrace.get(jobId, { includeResult: false });
    expect(bare).not.toHaveProperty('result');
    expect(bare).not.toHaveProperty('history');
    const full = await stage.millrace.get(jobId, { includeHistory: true });
    expect(full?.result).toMatchObject({ status: 'SUCCESS', output: 'r', attempt: 1 });
    expect(full?.history?.at(-1)).toMatchObject({
      from: 'running',
      to: 'completed',
      at: expect.any(Date),
      reason: 'succeeded',
    });
  });

  it('has no result for a job that ended without an attempt', async () => {
    const jobId = await stage.act(() => 1, { delay: '1h' });
    await stage.millrace.cancel(jobId);
    expect((await stage.millrace.get(jobId))?.result).toBeUndefined();
  });
});

describe('waitFor', () => {
  it('resolves as soon as the job has ended in any terminal state', async () => {
    const failing = stage.act(() => Promise.reject(new PermanentError('no')));
    expect((await stage.millrace.waitFor(await failing)).state).toBe('failed');
    const done = await stage.act(() => 1);
    await stage.millrace.waitFor(done);
    expect((await stage.millrace.waitFor(done)).state).toBe('completed');
  });

  it('hears of jobs that end in another process', async () => {
    const other = await stage.open();
    const jobId = await stage.act(() => 'there');
    expect((await other.waitFor(jobId)).result?.output).toBe('there');
  });

  it('serves thousands of callers at once', async () => {
    const jobId = await stage.act(() => 1, { delay: '1h' });
    const waiting = Array.from({ length: 6_000 }, () => stage.millrace.waitFor(jobId));
    await stage.millrace.cancel(jobId);
    expect(new Set((await Promise.all(waiting)).map(({ state }) => state))).toEqual(new Set(['cancelled']));
  });

  it('gives up after its time, on its signal, and at once for a job that does not exist', async () => {
    const jobId = await stage.act(() => 1, { delay: '1h' });
    await expect(stage.millrace.waitFor(jobId, { timeout: '50ms' })).rejects.toMatchObject({ code: 'TIMED_OUT' });
    const controller = new AbortController();
    const waiting = stage.millrace.waitFor(jobId, { signal: controller.signal });
    controller.abort(new Error('never mind'));
    await expect(waiting).rejects.toThrow('never mind');
    await expect(stage.millrace.waitFor(UNKNOWN)).rejects.toMatchObject({ code: 'NOT_FOUND' });
  });
});

describe('on', () => {
  it('tells the life of jobs in this process, until it is stopped', async () => {
    const heard: string[] = [];
    const stops = (['started', 'completed', 'failed', 'cancelled'] as const).map((event) =>
      stage.millrace.on(event, ({ jobId, attempt }) => heard.push(`${event} ${jobId} ${attempt}`)),
    );
    const good = await stage.act(() => 1);
    await stage.end(good);
    const bad = await stage.act(() => Promise.reject(new Error('x')), { maxAttempts: 1 });
    await stage.end(bad);
    const gate = new Gate();
    const stopped = await stage.act(async (context) => {
      await gate.pass();
      await context.checkpoint({});
    });
    await gate.reached();
    await stage.millrace.cancel(stopped);
    gate.open();
    await stage.end(stopped);
    // Of these jobs only: an event of a job may come after its end, so one of an earlier test may come now.
    const told = (jobId: string) => heard.filter((line) => line.includes(jobId)).map((line) => line.split(' ')[0]);
    await until(
      'six events have been received',
      () => [good, bad, stopped].flatMap(told).length,
      (count) => count >= 6,
    );
    for (const stop of stops) stop();
    const unheard = await stage.act(() => 1);
    await stage.end(unheard);
    expect([good, bad, stopped, unheard].map(told)).toEqual([
      ['started', 'completed'],
      ['started', 'failed'],
      ['started', 'cancelled'],
      [],
    ]);
  });

  it('keeps a listener that throws from harming the job and other listeners', async () => {
    const told: string[] = [];
    const stops = [
      stage.millrace.on('error', ({ where }) => told.push(where)),
      stage.millrace.on('completed', () => {
        throw new Error('mine');
      }),
    ];
    expect((await stage.end(await stage.act(() => 1))).state).toBe('completed');
    await until(
      'the failing listener has been reported',
      () => told,
      (seen) => seen.includes('listener of completed'),
    );
    for (const stop of stops) stop();
  });
});

describe('search', () => {
  it('combines its filters [GA-2.35] [GA-2.36] [GA-2.37] [GA-2.38] [GA-2.39] [GA-2.40] [GA-2.41] [GA-2.42]', async () => {
    const millrace = await stage.open({ org: await stage.ledger.newOrg() });
    const submit = (type: string, more: object = {}) => millrace.submit({ type, payload: {}, ...more });
    const blue = await submit('a', { tags: { team: 'blue', n: '1' }, priority: 'HIGH' });
    const red = await submit('a', { tags: { team: 'red' } });
    const other = await submit('b', { tags: { team: 'blue' }, delay: '1h' });
    await millrace.cancel(red.jobId);
    const found = async (filter: Parameters<typeof millrace.search>[0]) =>
      (await millrace.search(filter, { order: 'CREATED_ASC' })).jobs.map(({ id }) => id);
    expect(await found({})).toEqual([blue.jobId, red.jobId, other.jobId]);
    expect(await found({ types: ['a'] })).toEqual([blue.jobId, red.jobId]);
    expect(await found({ types: ['a'], states: ['cancelled', 'delayed'] })).toEqual([red.jobId]);
    expect(await found({ priorities: ['HIGH'] })).toEqual([blue.jobId]);
    expect(await found({ tags: { team: 'blue' } })).toEqual([blue.jobId, other.jobId]);
    expect(await found({ tags: { team: 'blue', n: '2' } })).toEqual([]);
    expect(await found({ createdBefore: new Date(0) })).toEqual([]);
    expect(await found({ createdAfter: new Date(0), updatedAfter: new Date(0), types: ['b'] })).toEqual([other.jobId]);
  });

  it('pages with a cursor to the end, each job once [GA-2.43] [GA-2.44] [GA-2.45] [GA-2.47] [GA-2.48] [GA-2.49]', async () => {
    const millrace = await stage.open({ org: await stage.ledger.newOrg() });
    await millrace.submitMany(Array.from({ length: 25 }, () => ({ type: 'paged', payload: {} })));
    for (const order of ['CREATED_DESC', 'UPDATED_DESC'] as const) {
      const seen: number[] = [];
      let cursor: string | null = null;
      do {
        const page: Awaited<ReturnType<typeof millrace.search>> = await millrace.search({}, { cursor, limit: 10, order });
        seen.push(...page.jobs.map(({ seq }) => seq));
        expect(page.totalCount).toBe(25);
        expect(page.hasMore).toBe(page.nextCursor !== null);
        cursor = page.nextCursor;
      } while (cursor !== null);
      expect(seen).toHaveLength(25);
      expect(seen).toEqual([...new Set(seen)].toSorted((a, b) => b - a));
    }
    for (const limit of [0, 1_001]) await expect(millrace.search({}, { limit })).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
  });
});

describe('stats', () => {
  it.each([0, '0s', -1, 'soon'])('refuses a time range of %s', async (timeRange) => {
    await expect(stage.millrace.stats({ timeRange: timeRange as number })).rejects.toMatchObject({
      code: 'INVALID_REQUEST',
      details: [{ field: 'timeRange', code: 'INVALID_DURATION' }],
    });
  });

  it('counts states, rates and latencies, and breaks them down [GA-2.50] [GA-2.51] [GA-2.56] [GA-2.57] [GA-2.59] [GA-2.62] [GA-2.63] [GA-2.64] [GA-2.65] [GA-2.66]', async () => {
    const org = await stage.ledger.newOrg();
    const millrace = await stage.work({ fine: () => 1, bad: () => Promise.reject(new PermanentError('no')) }, { org });
    const jobs = await millrace.submitMany([
      { type: 'fine', payload: {} },
      { type: 'fine', payload: {}, priority: 'HIGH' },
      { type: 'bad', payload: {} },
      { type: 'unserved', payload: {} },
      { type: 'fine', payload: {}, delay: '1h' },
    ]);
    for (const { jobId } of jobs.results.slice(0, 3)) await millrace.waitFor(jobId as string);
    const stats = await millrace.stats({ timeRange: '10m', breakdownBy: ['TYPE', 'PRIORITY', 'STATE'] });
    expect(stats.states).toMatchObject({
      completed: 2,
      failed: 1,
      scheduled: 1,
      delayed: 1,
      running: 0,
      dead_letter: 0,
    });
    expect(stats.submissionRate).toBeCloseTo(5 / 600);
    expect(stats.failureRate).toBeCloseTo(1 / 600);
    expect(stats.byType?.fine).toEqual({ pending: 1, running: 0, completed: 2, failed: 0 });
    expect(stats.byPriority?.HIGH).toMatchObject({ completed: 1 });
    expect(stats.byState?.failed).toMatchObject({ failed: 1 });
    expect(stats.queueLatency?.maxMs).toBeGreaterThanOrEqual(stats.queueLatency?.p50Ms as number);
    expect(stats.executionTime).not.toBeNull();
    await expect(async () => millrace.stats({ timeRange: 'lately' })).rejects.toMatchObject({
      code: 'INVALID_REQUEST',
    });
  });
});
