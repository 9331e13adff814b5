import { describe, expect, it, onTestFinished } from 'vitest';
import { PROFILES } from '../../src/core/policy.ts';
import { EventHub } from '../../src/engine/events.ts';
import { Claims, returnUnknownJobs } from '../../src/engine/work/claims.ts';
import type { RegisteredHandler } from '../../src/engine/work/registry.ts';
import { type LeasedJob, Starter } from '../../src/engine/work/starter.ts';
import { claimJobs } from '../../src/ledger/attempts/claim-jobs.ts';
import type { Database } from '../../src/ledger/driver/database.ts';
import type { Queryable } from '../../src/ledger/driver/statement.ts';
import { cancelJobs } from '../../src/ledger/jobs/cancel-jobs.ts';
import { PolicyCache } from '../../src/ledger/jobs/intern-policies.ts';
import { checkInvariants } from '../../src/ledger/upkeep/invariants.ts';
import { createEngine } from '../../src/services/jobs/create-engine.ts';
import { rangesOf, type TestJob, useLedger } from '../ledger/fixture.ts';
import { whileHolding } from '../ledger/while-holding.ts';
import { until } from '../until.ts';

const ledger = useLedger();

/** The ledger behind a connection that breaks around the first statement of this name: before it arrives, or behind it. */
function breaking(name: string, when: 'before' | 'behind'): Database {
  let isWhole = true;
  const query: Queryable['query'] = async (config) => {
    const breaks = isWhole && config.name === `millrace_${name}`;
    if (breaks) isWhole = false;
    if (breaks && when === 'before') throw new Error('Connection terminated unexpectedly');
    const answer = await ledger.db.workers.query(config);
    if (breaks) throw new Error('Connection terminated unexpectedly');
    return answer;
  };
  return { ...ledger.db, workers: { query } as unknown as Database['workers'] };
}

type Told = { started: number[]; gone: number; returned: number };

async function claimed(): Promise<{ job: TestJob; workerId: number; leased: LeasedJob }> {
  const job = await ledger.submitOne();
  const workerId = await ledger.registerWorker();
  const asked = { workerId, ranges: rangesOf(job), limit: 1, claimNo: 1 };
  const given = (await claimJobs(ledger.db.workers, asked)).jobs[0];
  if (given === undefined) throw new Error('It could not be claimed.');
  const registered = { type: job.jobType } as RegisteredHandler;
  const parts = { job: given, policy: PROFILES.gopherqueue, registered, claimNo: 1, claimedMs: performance.now() };
  return { job, workerId, leased: parts };
}

function starterOf(workerId: number, database: Database): { starter: Starter; told: Told } {
  const told: Told = { started: [], gone: 0, returned: 0 };
  const starter = new Starter({
    ...{ database, workerId, events: new EventHub() },
    onStarted: (_, { attemptsStarted }) => told.started.push(attemptsStarted),
    onGone: () => told.gone++,
    onReturned: () => told.returned++,
    onReleased: () => {},
  });
  onTestFinished(() => starter.close());
  return { starter, told };
}

describe('a start', () => {
  it('whose answer is lost is known all the same, and counts once', async () => {
    const { job, workerId, leased } = await claimed();
    const { starter, told } = starterOf(workerId, breaking('start_jobs', 'behind'));
    starter.add([leased]);
    await until('all starts have been written', () => starter.jobs, 0);
    expect(told).toEqual({ started: [1], gone: 0, returned: 0 });
    expect(await ledger.rowOf(job)).toMatchObject({ state: 'running', attempts_started: 1, event_count: 2 });
  });

  it('that never arrived is sent again', async () => {
    const { job, workerId, leased } = await claimed();
    const { starter, told } = starterOf(workerId, breaking('start_jobs', 'before'));
    starter.add([leased]);
    await until('all starts have been written', () => starter.jobs, 0);
    expect(told).toEqual({ started: [1], gone: 0, returned: 0 });
    expect(await ledger.rowOf(job)).toMatchObject({ state: 'running', attempts_started: 1 });
  });

  it('that fails for as long as the lease lasts leaves the job to others [FR-12.06]', async () => {
    const { job, workerId, leased } = await claimed();
    const { starter, told } = starterOf(workerId, breaking('start_jobs', 'before'));
    starter.add([{ ...leased, claimedMs: performance.now() - leased.policy.leaseMs - 1 }]);
    await until('all starts have been written', () => starter.jobs, 0);
    expect(told).toEqual({ started: [], gone: 0, returned: 1 });
    expect(await ledger.rowOf(job)).toMatchObject({ state: 'scheduled', worker_id: null, attempts_started: 0 });
    expect(await ledger.tokensOf(job, 'ready')).toBe(1);
  });

  it('that landed unheard is not undone by a return', async () => {
    const { workerId, leased } = await claimed();
    const { starter, told } = starterOf(workerId, breaking('start_jobs', 'behind'));
    starter.add([{ ...leased, claimedMs: performance.now() - leased.policy.leaseMs - 1 }]);
    await until('all starts have been written', () => starter.jobs, 0);
    expect(told).toEqual({ started: [1], gone: 0, returned: 0 });
  });

  it('is not sent once the worker stops: the job goes back, and another lease gets it', async () => {
    const { job, workerId, leased } = await claimed();
    const { starter, told } = starterOf(workerId, ledger.db);
    starter.stop();
    starter.add([leased]);
    await until('all starts have been written', () => starter.jobs, 0);
    expect(told).toEqual({ started: [], gone: 0, returned: 1 });
    expect(await ledger.lease(job)).toMatchObject({ id: job.id });
  });

  it('of a job that was cancelled meanwhile is not written', async () => {
    const { job, workerId, leased } = await claimed();
    const { orgId, id } = job;
    await cancelJobs(ledger.db.api, { projectId: null, orgId, ids: [id], reason: null, actor: null, force: false });
    const { starter, told } = starterOf(workerId, ledger.db);
    starter.add([leased]);
    await until('all starts have been written', () => starter.jobs, 0);
    expect(told).toEqual({ started: [], gone: 1, returned: 0 });
  });
});

describe('a claim whose answer was lost', () => {
  it('is given back, started or not, unless the worker knows of it', async () => {
    const { job, workerId, leased } = await claimed();
    const database = ledger.db;
    const policies = new PolicyCache(database.workers);
    const knowing = new Claims();
    knowing.open(1, [leased.job]);
    await returnUnknownJobs({ database, policies, workerId, claims: knowing });
    expect(await ledger.rowOf(job)).toMatchObject({ worker_id: workerId });
    await returnUnknownJobs({ database, policies, workerId, claims: new Claims() });
    expect(await ledger.rowOf(job)).toMatchObject({ state: 'scheduled', worker_id: null, event_count: 1 });
    expect(await ledger.tokensOf(job, 'ready')).toBe(1);
  });
});

describe('a claim whose answer is still to come', () => {
  it('is left alone, and given back only once its answer was lost', async () => {
    const { job, workerId } = await claimed();
    const claims = new Claims();
    const params = { database: ledger.db, policies: new PolicyCache(ledger.db.workers), workerId, claims };
    expect(claims.next()).toBe(1);
    await returnUnknownJobs(params);
    expect(await ledger.rowOf(job)).toMatchObject({ worker_id: workerId });
    claims.answered(1);
    await returnUnknownJobs(params);
    expect(await ledger.rowOf(job)).toMatchObject({ state: 'scheduled', worker_id: null });
  });
});

describe('a crew that starts apart', () => {
  it('returns the jobs that a claim brings while it drains, without starting them', async () => {
    const orgId = await ledger.newOrg();
    const type = 'drained-in-claim';
    const begun: string[] = [];
    const registration = { type, concurrency: 5, handler: () => void begun.push(type) };
    const engine = createEngine({ database: ledger.db, profile: PROFILES.gopherqueue });
    engine.addCrew({ name: 'apart', slots: 2, queues: ['*'], registrations: [registration], startsApart: true });
    await engine.open();
    onTestFinished(() => engine.close(0));
    const text = 'SELECT FROM millrace.job_types WHERE name = $1 FOR UPDATE';
    let job = {} as TestJob;
    const drainInClaim = async () => {
      await engine.start();
      const { drained } = await whileHolding({ url: ledger.db.url, text, values: [type] }, async () => {
        job = await ledger.submitOne({ orgId, type });
        engine.hint('ready');
        await until(
          'the start waits for the lock',
          () => locksAwaited(),
          (count) => count > 0,
        );
        return { drained: engine.drain(0) };
      });
      await drained;
      const row = await ledger.rowOf(job);
      expect(row).toMatchObject({ state: 'scheduled', worker_id: null, attempts_started: 0, event_count: 1 });
      const isClaimed = Number(row.lease_seq) > 0;
      if (!isClaimed) await cancelJobs(ledger.db.api, { projectId: null, orgId, ids: [job.id], reason: null, actor: null, force: false });
      return isClaimed;
    };
    // A claim that waits for longer than two seconds fails, and then brings no job.
    await until('a claim has brought the job while the crew drained', drainInClaim);
    expect(begun).toEqual([]);
    expect(await ledger.tokensOf(job, 'ready')).toBe(1);
    expect(await checkInvariants(ledger.db.maintenance)).toEqual([]);
  });
});

async function locksAwaited(): Promise<number> {
  const text = `SELECT count(*)::int4 AS n FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`;
  return (await ledger.db.maintenance.query(text)).rows[0].n;
}
