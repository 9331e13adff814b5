import { describe, expect, it } from 'vitest';
import type { Millrace } from '../../src/index.ts';
import { until } from '../until.ts';
import { useBench } from './fixture.ts';

const bench = useBench();
const DAY_MS = 86_400_000;
const daily = { cron: '@daily', timeZone: 'Europe/Berlin', submission: { type: 'report', payload: { region: 'north' } } };

const opened = async (): Promise<Millrace> => bench.open({ org: await bench.ledger.newOrg() });

describe('millrace.cron', () => {
  it('gets, lists and removes schedules', async () => {
    const millrace = await opened();
    for (const key of ['b', 'a', 'c']) await millrace.schedule(key, daily);
    expect(await millrace.cron.get('a')).toMatchObject({
      key: 'a',
      cron: '@daily',
      overlap: 'queue',
      pausedAt: null,
      submission: daily.submission,
    });
    const first = await millrace.cron.list({ limit: 2 });
    expect(first.schedules.map(({ key }) => key)).toEqual(['a', 'b']);
    const second = await millrace.cron.list({ limit: 2, cursor: first.nextCursor });
    expect([second.schedules.map(({ key }) => key), second.nextCursor]).toEqual([['c'], null]);
    expect(await millrace.cron.remove('b')).toBe(true);
    expect(await millrace.cron.remove('b')).toBe(false);
    expect((await millrace.schedules()).map(({ key }) => key)).toEqual(['a', 'c']);
    expect(await (await opened()).cron.get('a')).toBeNull();
  });

  it('pauses a schedule, which stays paused when a program declares it again, and does not catch up when it is resumed', async () => {
    const millrace = await opened();
    const { nextAt } = await millrace.schedule('s', { ...daily, missed: 'all' });
    expect(await millrace.cron.pause('s', { reason: 'the provider is down' })).toMatchObject({ reason: 'the provider is down' });
    await bench.ledger.moveClock(3 * DAY_MS);
    expect((await millrace.schedule('s', { ...daily, missed: 'all' })).pausedAt).not.toBeNull();
    const worker = await bench.work({}, { org: (await millrace.cron.get('s'))?.orgId });
    await worker.schedule('other', { ...daily, cron: '* * * * * *' });
    await until('the other schedule has fired', async () => (await worker.cron.get('other'))?.lastJobId != null);
    await worker.unschedule('other');
    expect(await millrace.cron.get('s')).toMatchObject({ nextAt, lastJobId: null });
    const resumed = await millrace.cron.resume('s');
    expect(resumed).toMatchObject({ pausedAt: null, lastJobId: null });
    expect(resumed.nextAt.getTime()).toBeGreaterThan(nextAt.getTime() + 2 * DAY_MS);
  });

  it('runs a schedule now, with the time of the call as its planned time, and keeps its next run', async () => {
    const millrace = await opened();
    const { nextAt } = await millrace.schedule('s', { ...daily, submission: { ...daily.submission, idempotencyKey: 'mine' } });
    const [one, two] = [await millrace.cron.run('s'), await millrace.cron.run('s')];
    expect(one.jobId).not.toBe(two.jobId);
    const job = await millrace.get(two.jobId);
    expect(job).toMatchObject({ type: 'report', payload: { region: 'north' }, idempotencyKey: null });
    expect(await millrace.cron.get('s')).toMatchObject({ nextAt, lastJobId: two.jobId, lastFiredAt: job?.plannedAt });
    const plain = await millrace.submit({ type: 'report', payload: {} });
    expect((await millrace.get(plain.jobId))?.plannedAt).toBeNull();
  });

  it('returns the next times, also those of a schedule that ends', async () => {
    const millrace = await opened();
    const { nextAt } = await millrace.schedule('s', daily);
    const times = await millrace.cron.next('s');
    expect(times).toHaveLength(10);
    expect(times[0]).toEqual(nextAt);
    expect(await millrace.cron.next('s', 100)).toHaveLength(100);
    const year = new Date().getUTCFullYear() + 2;
    await millrace.schedule('ends', { ...daily, cron: `0 0 0 1 1,2 * ${year}`, timeZone: 'UTC' });
    expect(await millrace.cron.next('ends')).toEqual([new Date(Date.UTC(year, 0, 1)), new Date(Date.UTC(year, 1, 1))]);
    for (const count of [0, 101, 1.5, Number.NaN])
      await expect(millrace.cron.next('s', count)).rejects.toMatchObject({ details: [{ field: 'count' }] });
  });

  it('says which schedule does not exist, and refuses what it does not know', async () => {
    const millrace = await opened();
    const absent = { code: 'NOT_FOUND', message: 'The schedule "none" does not exist. Check its key.' };
    for (const call of ['pause', 'resume', 'run', 'next'] as const) await expect(millrace.cron[call]('none')).rejects.toMatchObject(absent);
    await millrace.schedule('s', daily);
    await expect(millrace.cron.pause('s', { because: 'x' } as object)).rejects.toMatchObject({ details: [{ field: 'because' }] });
    await expect(millrace.cron.pause('s', { reason: 'x'.repeat(1_001) })).rejects.toMatchObject({ details: [{ field: 'reason' }] });
    await expect(millrace.cron.list({ limit: 1_001 })).rejects.toMatchObject({ details: [{ field: 'limit' }] });
    await expect(millrace.cron.get(5 as unknown as string)).rejects.toMatchObject({ details: [{ field: 'key' }] });
    await expect(millrace.schedule('s', { ...daily, overlap: 'wait' as 'skip' })).rejects.toMatchObject({
      details: [{ field: 'overlap' }],
    });
    for (const key of ['.', '..']) await expect(millrace.schedule(key, daily)).rejects.toMatchObject({ details: [{ field: 'key' }] });
    await expect(millrace.schedule('s', { ...daily, cron: '2030-01-01T00:00:00Z' })).rejects.toMatchObject({
      details: [{ field: 'cron' }],
    });
  });

  it('two changes at the same time both take effect', async () => {
    const millrace = await opened();
    await millrace.schedule('s', daily);
    await Promise.all([millrace.cron.pause('s'), millrace.cron.run('s'), millrace.cron.pause('s'), millrace.cron.run('s')]);
    const { pausedAt, lastJobId } = (await millrace.cron.get('s')) ?? {};
    expect([pausedAt, lastJobId]).toEqual([expect.any(Date), expect.any(String)]);
    expect((await millrace.search({ types: ['report'] })).totalCount).toBe(2);
  });
});

describe('a handler of a schedule', () => {
  it('gets the planned time of each run that was missed, in every attempt, and null without a schedule', async () => {
    const org = await bench.ledger.newOrg();
    const setup = await bench.open({ org });
    const { nextAt } = await setup.schedule('s', {
      ...daily,
      cron: '0 * * * *',
      missed: 'all',
      submission: { type: 'planned', payload: {} },
    });
    await bench.ledger.moveClock(3_600_000 * 3);
    const seen: (number | undefined)[] = [];
    const millrace = await bench.work(
      {
        planned: ({ plannedAt, attempt }) => {
          seen.push(plannedAt?.getTime());
          if (attempt === 1) throw new Error('again');
        },
      },
      { org },
    );
    await until('three runs were tried', () => new Set(seen).size >= 3);
    await millrace.unschedule('s');
    await bench.ledger.moveClock(3_600_000);
    const isOver = { types: ['planned'], states: ['completed', 'failed', 'dead_letter'] as const };
    // Another hour may have begun since, with a run of its own.
    await until(
      'all have ended',
      async () => (await millrace.search(isOver)).totalCount === (await millrace.search({ types: ['planned'] })).totalCount,
    );
    const hours = [0, 1, 2].map((n) => nextAt.getTime() + n * 3_600_000);
    for (const hour of hours) expect(seen.filter((time) => time === hour)).toHaveLength(2);
    const plain = await millrace.submit({ type: 'planned', payload: {} });
    await until('the plain job was tried', () => seen.includes(undefined));
    await millrace.cancel(plain.jobId);
  });
});
