import { describe, expect, it } from 'vitest';
import type { Millrace, Schedule } from '../../src/index.ts';
import { untilAborted, useBench } from '../library/fixture.ts';
import { until } from '../until.ts';
import { WorkerProcess } from './worker-process.ts';

const bench = useBench();
const HOUR_MS = 3_600_000;
const SECOND_MS = 1_000;

const scheduleOf = async (millrace: Millrace): Promise<Schedule> => (await millrace.cron.get('s')) as Schedule;

/** The jobs of an org's schedule, in the order of their planned times. */
async function jobsOf(orgId: string): Promise<{ id: string; state: string; plannedMs: number }[]> {
  const { rows } = await bench.ledger.db.api.query(
    `SELECT id, state::text AS state, extract(epoch FROM planned_at) * 1000 AS planned FROM millrace.jobs
     WHERE org_id = $1 AND planned_at IS NOT NULL ORDER BY planned_at`,
    [orgId],
  );
  return rows.map(({ id, state, planned }) => ({ id, state, plannedMs: Number(planned) }));
}

/** A schedule, and a process that takes its turns and runs no job of it. */
async function hourly(overlap: Schedule['overlap']) {
  const org = await bench.ledger.newOrg();
  const millrace = await bench.work({}, { org });
  const { nextAt } = await millrace.schedule('s', { cron: '0 * * * *', overlap, submission: { type: 'slow', payload: {} } });
  const turn = async () => {
    const before = (await scheduleOf(millrace)).nextAt;
    await bench.ledger.moveClock(HOUR_MS);
    await until('the schedule has taken its turn', async () => (await scheduleOf(millrace)).nextAt > before);
  };
  /** How many times have come. The hour may end while a test runs. */
  const turns = async () => ((await scheduleOf(millrace)).nextAt.getTime() - nextAt.getTime()) / HOUR_MS;
  return { org, millrace, turn, turns };
}

describe('a run that is due while an earlier job has not ended', () => {
  it('is skipped and recorded, until that job has ended', async () => {
    const { org, millrace, turn, turns } = await hourly('skip');
    await turn();
    const [first] = await jobsOf(org);
    await turn();
    const skipping = await scheduleOf(millrace);
    expect(skipping.skipped).toBe((await turns()) - 1);
    expect(skipping.lastSkippedAt).toEqual(new Date(skipping.nextAt.getTime() - HOUR_MS));
    expect(skipping).toMatchObject({ lastJobId: first?.id, lastFiredAt: new Date(first?.plannedMs as number) });
    await millrace.cancel(first?.id as string);
    await turn();
    const jobs = await jobsOf(org);
    expect(jobs).toHaveLength(2);
    expect((await scheduleOf(millrace)).skipped + jobs.length).toBe(await turns());
  });

  it('has a job of its own, if the rule is to queue', async () => {
    const { org, turn, turns } = await hourly('queue');
    for (let n = 0; n < 3; n++) await turn();
    const jobs = await jobsOf(org);
    expect(jobs).toHaveLength(await turns());
    expect(jobs.every(({ state }) => state === 'scheduled')).toBe(true);
  });

  it('replaces the jobs that wait, which are cancelled as by anyone', async () => {
    const { org, millrace, turn } = await hourly('queue');
    await turn();
    await turn();
    await millrace.schedule('s', { cron: '0 * * * *', overlap: 'replace', submission: { type: 'slow', payload: {} } });
    await turn();
    const jobs = await jobsOf(org);
    expect(jobs.map(({ state }) => state)).toEqual([...jobs.slice(1).map(() => 'cancelled'), 'scheduled']);
    const history = (await millrace.get(jobs[0]?.id as string, { includeHistory: true }))?.history;
    expect(history?.at(-1)).toMatchObject({ to: 'cancelled', reason: 'cancelled', actor: { type: 'system', id: 'scheduler' } });
    expect(await bench.violations()).toEqual([]);
  });

  it('replaces a job that runs, whose handler is asked to stop', async () => {
    const org = await bench.ledger.newOrg();
    const began: (number | undefined)[] = [];
    const millrace = await bench.work(
      {
        held: ({ plannedAt, signal }) => {
          began.push(plannedAt?.getTime());
          return untilAborted(signal);
        },
      },
      { org },
    );
    const { nextAt } = await millrace.schedule('s', { cron: '0 * * * *', overlap: 'replace', submission: { type: 'held', payload: {} } });
    await bench.ledger.moveClock(HOUR_MS);
    await until('the first job runs', () => began.length >= 1);
    await bench.ledger.moveClock(HOUR_MS);
    await until('the second job runs', () => began.length >= 2);
    expect(began.slice(0, 2)).toEqual([nextAt.getTime(), nextAt.getTime() + HOUR_MS]);
    const [first] = await jobsOf(org);
    expect(await millrace.waitFor(first?.id as string, { timeout: '30s' })).toMatchObject({ state: 'cancelled' });
    await millrace.unschedule('s');
  });

  it('does not replace a job if its own is refused', async () => {
    const { org, millrace, turn } = await hourly('queue');
    await turn();
    const gone = await millrace.submit({ type: 'pruned', payload: {} });
    const submission = { type: 'slow', payload: {}, dependsOn: [gone.jobId] };
    await millrace.schedule('s', { cron: '0 * * * *', overlap: 'replace', submission });
    await millrace.cancel(gone.jobId);
    await bench.ledger.db.api.query('DELETE FROM millrace.jobs WHERE id = $1', [gone.jobId]);
    await turn();
    expect((await jobsOf(org)).map(({ state }) => state)).toEqual(['scheduled']);
  });

  it('is skipped also among runs that are caught up on', async () => {
    const org = await bench.ledger.newOrg();
    const setup = await bench.open({ org });
    const { nextAt } = await setup.schedule('s', {
      ...{ cron: '0 * * * *', missed: 'all', overlap: 'skip' },
      submission: { type: 'slow', payload: {} },
    });
    await bench.ledger.moveClock(5 * HOUR_MS);
    await bench.work({}, { org });
    await until('the schedule has caught up', async () => (await scheduleOf(setup)).skipped >= 4);
    expect((await jobsOf(org)).map(({ plannedMs }) => plannedMs)).toEqual([nextAt.getTime()]);
  });
});

describe('several processes', () => {
  it('take each turn once: it submits a job or is skipped, and no two jobs run at the same time', async () => {
    const org = await bench.ledger.newOrg();
    let running = 0;
    let most = 0;
    const tick = async () => {
      most = Math.max(most, ++running);
      await Promise.resolve();
      running--;
    };
    const [one] = await Promise.all([1, 2, 3].map(() => bench.work({ tick }, { org })));
    const millrace = one as Millrace;
    const { nextAt } = await millrace.schedule('s', {
      ...{ cron: '* * * * * *', missed: 'all', overlap: 'skip' },
      submission: { type: 'tick', payload: {} },
    });
    for (let n = 0; n < 5; n++) {
      const before = (await jobsOf(org)).length;
      await bench.ledger.moveClock(20 * SECOND_MS);
      await until('more jobs were submitted', async () => (await jobsOf(org)).length > before);
    }
    const paused = await millrace.cron.pause('s');
    const jobs = await jobsOf(org);
    expect(new Set(jobs.map(({ plannedMs }) => plannedMs)).size).toBe(jobs.length);
    expect(jobs.length + paused.skipped).toBe((paused.nextAt.getTime() - nextAt.getTime()) / SECOND_MS);
    expect(most).toBe(1);
  });

  it('killed while they catch up leave each turn whole: one job for each, and only the newest is not replaced', async () => {
    const org = await bench.ledger.newOrg();
    const setup = await bench.open({ org });
    const { nextAt } = await setup.schedule('s', {
      ...{ cron: '* * * * * *', missed: 'all', overlap: 'replace' },
      submission: { type: 'nobody', payload: {} },
    });
    await bench.ledger.moveClock(500 * SECOND_MS);
    for (let n = 0; n < 3; n++) {
      const before = (await jobsOf(org)).length;
      const children = await Promise.all([1, 2].map(() => WorkerProcess.start({ url: bench.ledger.db.url, org })));
      await until('the children take turns', async () => (await jobsOf(org)).length > before);
      await Promise.all(children.map((child) => child.kill()));
    }
    await bench.work({}, { org });
    await until('the schedule has caught up', async () => (await jobsOf(org)).length >= 500);
    const paused = await setup.cron.pause('s');
    const jobs = await jobsOf(org);
    const turns = (paused.nextAt.getTime() - nextAt.getTime()) / SECOND_MS;
    expect(jobs.map(({ plannedMs }) => plannedMs)).toEqual(Array.from({ length: turns }, (_, n) => nextAt.getTime() + n * SECOND_MS));
    expect(jobs.findIndex(({ state }) => state !== 'cancelled')).toBe(jobs.length - 1);
    expect(paused.lastJobId).toBe(jobs.at(-1)?.id);
    expect(await bench.violations()).toEqual([]);
  });
});
