import { beforeEach, describe, expect, test } from 'vitest';
import { cancelJobs } from '../../src/ledger/jobs/cancel-jobs.ts';
import { stageJobs } from '../../src/ledger/upkeep/stage-jobs.ts';
import { useLedger } from './fixture.ts';

const ledger = useLedger();
const MINUTE = 60_000;
const stage = (limit = 100, floor: Date | null = null) => stageJobs(ledger.db.maintenance, { limit, floor });

beforeEach(() => ledger.db.api.query('TRUNCATE millrace.timers'));

describe('a timer that is due', () => {
  test('makes a delayed job ready, and not before [GM-2.04] [GM-2.13] [GM-10.06]', async () => {
    const job = await ledger.putJob('delayed');
    await ledger.moveClock(MINUTE / 2);
    expect(await stage()).toMatchObject({ staged: 0 });
    expect(await ledger.stateOf(job)).toBe('delayed');
    await ledger.moveClock(MINUTE / 2);
    expect(await stage()).toMatchObject({ staged: 1, nextInMs: null });
    const row = await ledger.rowOf(job);
    expect(row).toMatchObject({ state: 'scheduled', attempt_slot: 1, event_count: 2 });
    expect(row.scheduled_at).toEqual(row.updated_at);
    expect((await ledger.pathOf(job)).at(-1)).toBe('delayed>scheduled:delay_elapsed');
    expect([await ledger.tokensOf(job, 'timers'), await ledger.tokensOf(job, 'ready')]).toEqual([0, 1]);
  });

  test('makes a retrying job ready and grants it the next attempt [GM-2.19]', async () => {
    const job = await ledger.putJob('retrying');
    await ledger.moveClock(MINUTE + 1);
    expect(await stage()).toMatchObject({ staged: 1 });
    expect(await ledger.rowOf(job)).toMatchObject({ state: 'scheduled', attempt_slot: 2, attempts_started: 1 });
    expect((await ledger.pathOf(job)).at(-1)).toBe('retrying>scheduled:backoff_elapsed');
    expect((await ledger.start(job)).started.attemptsStarted).toBe(2);
  });

  test('is dropped when its job has moved on', async () => {
    const job = await ledger.putJob('delayed');
    await cancelJobs(ledger.db.api, { projectId: null, orgId: job.orgId, ids: [job.id], reason: null, actor: null, force: false });
    await ledger.moveClock(MINUTE + 1);
    expect(await stage()).toMatchObject({ staged: 0 });
    expect(await ledger.tokensOf(job, 'timers')).toBe(0);
    expect(await ledger.stateOf(job)).toBe('cancelled');
  });

  test('does not start a job whose own time is later', async () => {
    const job = await ledger.putJob('delayed');
    await ledger.db.api.query('INSERT INTO millrace.timers (run_at, seq, org_id) VALUES (millrace.clock(), $1, $2)', [job.seq, job.orgId]);
    expect(await stage()).toMatchObject({ staged: 0 });
    expect([await ledger.stateOf(job), await ledger.tokensOf(job, 'timers')]).toEqual(['delayed', 1]);
  });

  test('found twice moves its job once', async () => {
    const job = await ledger.putJob('delayed');
    await ledger.db.api.query('INSERT INTO millrace.timers SELECT * FROM millrace.timers');
    await ledger.moveClock(MINUTE + 1);
    expect(await stage()).toMatchObject({ staged: 1 });
    expect([await ledger.tokensOf(job, 'ready'), (await ledger.eventsOf(job)).length]).toEqual([1, 2]);
  });
});

describe('the answer of the stager', () => {
  test('says how long until the next, or none when a full batch may have left some behind', async () => {
    const jobs = [await ledger.putJob('delayed'), await ledger.putJob('delayed')];
    await ledger.putJob('delayed', { job: { runAfterMs: 3 * MINUTE } });
    await ledger.moveClock(MINUTE + 1);
    const first = await stage(1);
    expect(first).toMatchObject({ staged: 1, nextInMs: 0 });
    const second = await stage(2, first.floor);
    expect(second.staged).toBe(1);
    expect(second.nextInMs).toBeGreaterThan(MINUTE);
    expect(second.nextInMs).toBeLessThan(2 * MINUTE);
    expect(await Promise.all(jobs.map((job) => ledger.stateOf(job)))).toEqual(['scheduled', 'scheduled']);
    expect(await stage(2, second.floor)).toMatchObject({ staged: 0, floor: second.floor });
  });

  test('two stagers at once share the work', async () => {
    const jobs = await Promise.all(Array.from({ length: 8 }, () => ledger.putJob('delayed')));
    await ledger.moveClock(MINUTE + 1);
    const answers = await Promise.all([stage(), stage()]);
    const rest = await stage();
    expect(answers.reduce((sum, answer) => sum + answer.staged, rest.staged)).toBe(8);
    for (const job of jobs) expect(await ledger.eventsOf(job)).toHaveLength(2);
  });
});
