import { describe, expect, it } from 'vitest';
import type { Millrace } from '../../src/index.ts';
import { useBench } from '../library/fixture.ts';
import { until } from '../until.ts';

const bench = useBench();
const HOUR_MS = 3_600_000;

const keysOf = async (millrace: Millrace, type: string): Promise<(string | null)[]> =>
  (await millrace.search({ types: [type] }, { limit: 1_000 })).jobs.map(({ idempotencyKey }) => idempotencyKey);

describe('a schedule', () => {
  it('fires each time once, with two processes at work, and its jobs run', async () => {
    const org = await bench.ledger.newOrg();
    const ran: string[] = [];
    const handlers = { tick: ({ jobId }: { jobId: string }) => void ran.push(jobId) };
    const [one] = await Promise.all([1, 2].map(() => bench.work(handlers, { org })));
    await (one as Millrace).schedule('often', {
      cron: '* * * * * *',
      missed: 'all',
      submission: { type: 'tick', payload: {} },
    });
    await bench.ledger.moveClock(30_000);
    await until(
      'thirty ticks have run',
      () => ran.length,
      (count) => count >= 30,
    );
    await (one as Millrace).unschedule('often');
    const keys = await keysOf(one as Millrace, 'tick');
    expect(new Set(keys).size).toBe(keys.length);
    await until(
      'every tick has completed',
      async () => (await (one as Millrace).search({ types: ['tick'], states: ['completed'] })).totalCount,
      keys.length,
    );
    expect(new Set(ran).size).toBe(keys.length);
  });

  it('stays due while a transaction holds the key of its job, and keeps no other from its turn', async () => {
    const org = await bench.ledger.newOrg();
    const millrace = await bench.open({ org });
    const submission = { type: 'due', payload: {} };
    const { nextAt } = await millrace.schedule('held', { cron: '0 * * * *', missed: 'all', submission });
    const client = await bench.connect();
    await client.query('BEGIN');
    await millrace.submit({ ...submission, idempotencyKey: `schedule:held:${nextAt.toISOString()}` }, { client });
    await millrace.schedule('free', { cron: '0 * * * *', submission: { type: 'free', payload: {} } });
    await bench.ledger.moveClock(HOUR_MS);
    await bench.work({}, { org });
    await until(
      'the free schedule has fired',
      async () => (await keysOf(millrace, 'free')).length,
      (count) => count > 0,
    );
    expect((await millrace.schedules()).find(({ key }) => key === 'held')).toMatchObject({ nextAt, lastFiredAt: null });
    await client.query('ROLLBACK');
    await until(
      'the held schedule has fired',
      () => keysOf(millrace, 'due'),
      (seen) => seen.includes(`schedule:held:${nextAt.toISOString()}`),
    );
  });

  it('runs none, one or all of the times it missed, as its policy says', async () => {
    const org = await bench.ledger.newOrg();
    const setup = await bench.open({ org });
    for (const missed of ['none', 'one', 'all'] as const) {
      await setup.schedule(missed, {
        cron: '0 * * * *',
        missed,
        submission: { type: `missed-${missed}`, payload: {} },
      });
    }
    const dueMs = Math.max(...(await setup.schedules()).map(({ nextAt }) => nextAt.getTime()));
    const { rows } = await bench.ledger.db.api.query('SELECT millrace.clock() AS now');
    // Half past an hour, so that none strikes while the test runs.
    await bench.ledger.moveClock(dueMs - rows[0].now.getTime() + 3.5 * HOUR_MS);
    const worker = await bench.work({}, { org });
    const isMoved = async () => (await worker.schedules()).every(({ nextAt }) => nextAt.getTime() > dueMs + 3 * HOUR_MS);
    await until('the schedules have moved to their next time', isMoved);
    const counts = await Promise.all(['none', 'one', 'all'].map(async (missed) => (await keysOf(worker, `missed-${missed}`)).length));
    expect(counts[1]).toBe(1);
    expect(counts[2]).toBeGreaterThanOrEqual(4);
    expect(counts[2]).toBeLessThanOrEqual(5);
    expect(counts[0]).toBeLessThanOrEqual(1);
  });

  it('announced again unchanged keeps the time it owes; changed it begins anew', async () => {
    const millrace = await bench.open({ org: await bench.ledger.newOrg() });
    const schedule = { cron: '0 4 * * *', submission: { type: 'kept', payload: {} } };
    const first = await millrace.schedule('nightly', schedule);
    await bench.ledger.moveClock(48 * HOUR_MS);
    expect((await millrace.schedule('nightly', schedule)).nextAt).toEqual(first.nextAt);
    const moved = await millrace.schedule('nightly', { ...schedule, cron: '0 5 * * *' });
    expect(moved.nextAt.getTime()).toBeGreaterThan(first.nextAt.getTime() + 24 * HOUR_MS);
    expect(await millrace.schedules()).toHaveLength(1);
    expect(await millrace.unschedule('nightly')).toBe(true);
    expect(await millrace.unschedule('nightly')).toBe(false);
  });

  it('is refused when its time, its policy or its job cannot be', async () => {
    const millrace = await bench.open();
    const submission = { type: 'refused', payload: {} };
    const refused = [
      { cron: 'often', submission },
      { cron: '@daily', timeZone: 'Mars/Olympus', submission },
      { cron: '@daily', missed: 'some' as 'one', submission },
      { cron: '@daily', submission: { type: 'refused', payload: {}, maxAttempts: 0 } },
      { cron: '@daily', submission: { type: 'refused', payload: new Uint8Array([1]) } },
    ];
    for (const schedule of refused) {
      await expect(millrace.schedule('bad', schedule)).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
    }
    for (const key of ['', 'a\0b', 'half \ud800', 'x'.repeat(201)]) {
      await expect(millrace.schedule(key, { cron: '@daily', submission })).rejects.toMatchObject({
        details: [{ field: 'key' }],
      });
    }
    expect(await millrace.schedules()).toEqual([]);
  });

  it('whose job is refused skips its turn, reports it, and does not delay other schedules', async () => {
    const org = await bench.ledger.newOrg();
    const setup = await bench.open({ org });
    const gone = await setup.submit({ type: 'pruned', payload: {} });
    await setup.schedule('broken', {
      cron: '@hourly',
      submission: { type: 'after', payload: {}, dependsOn: [gone.jobId] },
    });
    await setup.schedule('sound', { cron: '@hourly', submission: { type: 'sound', payload: {} } });
    await setup.cancel(gone.jobId);
    await bench.ledger.db.api.query('DELETE FROM millrace.jobs WHERE id = $1', [gone.jobId]);
    const worker = await bench.open({ org });
    const told: string[] = [];
    worker.on('error', ({ where }) => told.push(where));
    await bench.ledger.moveClock(HOUR_MS);
    await worker.start();
    await until(
      'the sound schedule has fired',
      async () => (await keysOf(worker, 'sound')).length,
      (count) => count > 0,
    );
    await until(
      'the broken schedule has been reported',
      () => told,
      (seen) => seen.includes('schedule broken'),
    );
    const [broken] = await worker.schedules();
    expect(broken?.lastFiredAt).toBeNull();
  });
});
