import { describe, expect, it } from 'vitest';
import type { JobState } from '../../src/core/states.ts';
import { EventHub } from '../../src/engine/events.ts';
import { JobWatcher } from '../../src/engine/follow/job-watcher.ts';
import type { Database } from '../../src/ledger/driver/database.ts';
import type { Queryable } from '../../src/ledger/driver/statement.ts';
import { type LeasedTestJob, type TestJob, useLedger } from '../ledger/fixture.ts';
import { until } from '../until.ts';

const ledger = useLedger();

type Sent = { name: string; rows: number };

/** A watcher whose statements are noted, and may be made to fail. */
function newWatcher(failWith: (name: string) => Error | null = () => null) {
  const sent: Sent[] = [];
  const api: Queryable = {
    isOurs: true,
    async query(config) {
      const name = (config.name ?? '').replace('millrace_', '');
      const error = failWith(name);
      if (error !== null) throw error;
      const result = await ledger.db.api.query(config);
      sent.push({ name, rows: result.rows.length });
      return result;
    },
  };
  const events = new EventHub();
  const watcher = new JobWatcher({ database: { ...ledger.db, api } as unknown as Database, events });
  return { watcher, events, sent };
}

const DONE = { to: 'completed', reason: 'succeeded' } as const;

const factsOf = ({ orgId, id, jobType }: TestJob) => ({
  orgId,
  jobId: id,
  type: jobType,
  attempt: 1,
  tags: null,
  createdAtMs: 0,
});

describe('the watcher of jobs', () => {
  it('looks up all waited-for jobs by one statement, and reads each once, when it has ended', async () => {
    const jobs: LeasedTestJob[] = [];
    for (let n = 0; n < 40; n++) jobs.push(await ledger.start(await ledger.submitOne()));
    const { watcher, sent } = newWatcher();
    const watches = jobs.map((job) => watcher.watch(job));
    for (const job of jobs) await ledger.settle(job, DONE);
    const ended = await Promise.all(watches.map((watch) => watch.ended));
    expect(ended.map((job) => job?.id)).toEqual(jobs.map(({ id }) => id));
    expect(new Set(ended.map((job) => job?.state))).toEqual(new Set<JobState>(['completed']));
    const reads = sent.filter(({ name }) => name === 'get_jobs_of_orgs');
    expect(reads.reduce((sum, { rows }) => sum + rows, 0)).toBe(40);
    await watcher.stop();
  });

  it('reads a job once for all who wait for it', async () => {
    const job = await ledger.start(await ledger.submitOne());
    const { watcher, sent } = newWatcher();
    const watches = Array.from({ length: 6_000 }, () => watcher.watch(job));
    await ledger.settle(job, DONE);
    for (const { ended } of watches) expect((await ended)?.state).toBe('completed');
    expect(sent.filter(({ name }) => name === 'get_jobs_of_orgs')).toEqual([{ name: 'get_jobs_of_orgs', rows: 1 }]);
    await watcher.stop();
  });

  it('learns of an end in this process without looking', async () => {
    const job = await ledger.start(await ledger.submitOne());
    // Looks fail, so that only what was heard can bring the job.
    const { watcher, events } = newWatcher((name) => (name === 'find_ended' ? gone() : null));
    const { ended } = watcher.watch(job);
    await ledger.settle(job, DONE);
    events.emit('completed', { ...factsOf(job), output: null });
    expect((await ended)?.state).toBe('completed');
    await watcher.stop();
  });

  it('goes on waiting for a job that was reported as completed and waits for its children', async () => {
    const job = await ledger.start(await ledger.submitOne());
    const { watcher, events, sent } = newWatcher();
    const { ended } = watcher.watch(job);
    events.emit('completed', { ...factsOf(job), output: null });
    const isSent = () => sent.some(({ name }) => name === 'get_jobs_of_orgs');
    await until('the watcher has looked the job up', isSent);
    await ledger.settle(job, DONE);
    expect((await ended)?.state).toBe('completed');
    await watcher.stop();
  });

  it('finds no job of another org', async () => {
    const job = await ledger.submitOne();
    const { watcher } = newWatcher();
    const own = watcher.watch(job);
    expect(await watcher.watch({ orgId: await ledger.newOrg(), id: job.id }).ended).toBeNull();
    expect(watcher.callers).toBe(1);
    own.leave();
    await watcher.stop();
  });

  it('forgets callers who leave, and then hears and sends nothing more', async () => {
    const jobs = await Promise.all(Array.from({ length: 3 }, () => ledger.submitOne()));
    const { watcher, events, sent } = newWatcher();
    const watches = jobs.map((job) => watcher.watch(job));
    await until('the watcher has looked', () => sent.length > 0);
    for (const watch of watches) {
      watch.leave();
      watch.leave();
    }
    expect(watcher.callers).toBe(0);
    expect(events.hasListeners('completed')).toBe(false);
    await watcher.stop();
  });

  it('keeps callers while the database is away for a moment, and rejects them with an error that stays', async () => {
    const job = await ledger.start(await ledger.submitOne());
    let away = 3;
    const { watcher } = newWatcher(() => (away-- > 0 ? gone() : null));
    const { ended } = watcher.watch(job);
    await ledger.settle(job, DONE);
    expect((await ended)?.state).toBe('completed');
    await watcher.stop();
    const broken = newWatcher(() => new Error('no such table'));
    await expect(broken.watcher.watch(job).ended).rejects.toThrow('no such table');
    await broken.watcher.stop();
  });

  it('rejects callers who still wait when it stops, and all who come later', async () => {
    const job = await ledger.submitOne();
    const { watcher } = newWatcher();
    const { ended } = watcher.watch(job);
    const refused = expect(ended).rejects.toMatchObject({ code: 'SHUTTING_DOWN' });
    await watcher.stop();
    await refused;
    expect(() => watcher.watch(job)).toThrow(expect.objectContaining({ code: 'SHUTTING_DOWN' }));
  });
});

const gone = () => Object.assign(new Error('terminating connection'), { code: '57P01' });
