/** The end of an attempt against its rescue: each actor has a connection and a transaction of its own. */
import fc from 'fast-check';
import type pg from 'pg';
import { expect } from 'vitest';
import { isTerminal, type JobState } from '../../src/core/states.ts';
import { advanceJobs } from '../../src/ledger/advance-jobs.ts';
import { cancelJobs } from '../../src/ledger/cancel-jobs.ts';
import { heartbeat } from '../../src/ledger/heartbeat.ts';
import { reportProgress } from '../../src/ledger/report-progress.ts';
import { type SettledJob, settleJobs } from '../../src/ledger/settle-jobs.ts';
import type { Queryable } from '../../src/ledger/statement.ts';
import { type LeasedTestJob, settled, type TestLedger } from '../ledger/fixture.ts';
import type { Wire } from './system.ts';

const LEASE_MS = 60_000;

type Ending = Pick<SettledJob, 'to' | 'reason'> & Partial<SettledJob>;
type Deed = (client: pg.PoolClient, job: LeasedTestJob) => Promise<boolean>;

const settleBy =
  (by: 'lease' | 'dead_worker', ending: Ending): Deed =>
  async (client, job) => {
    const jobs = [settled(job, ending)];
    const { landed } = await settleJobs(client, { workerId: job.workerId, jobs, by, closedClaims: [] });
    return landed.has(job.leaseSeq);
  };

const finish: Deed = async (client, { orgId, seq, leaseSeq, workerId }) => {
  const finished = [{ orgId, seq, leaseSeq, result: null }];
  const { landed } = await advanceJobs(client, {
    workerId,
    finished,
    lanes: [],
    limit: 0,
    claimNo: 9,
    closedClaims: [],
  });
  return landed.has(leaseSeq);
};

const beat: Deed = async (client, job) => (await heartbeat(client, { workerId: job.workerId, jobs: [job] })).alive;

const report: Deed = async (client, { orgId, seq, leaseSeq }) =>
  (await reportProgress(client, { orgId, seq, leaseSeq, percent: 50, message: null })).landed;

const ask: Deed = async (client, { orgId, id }) => {
  await cancelJobs(client, { orgId, ids: [id], reason: null, actor: null, force: true });
  return true;
};

const FAILURE = JSON.stringify({ category: 'TEMPORARY', code: 'BOOM', message: 'it broke' });

/** How the worker may end its attempt, and where that leads. */
const OWN: Record<string, { deed: Deed; state: string }> = {
  advance: { deed: finish, state: 'completed' },
  complete: { deed: settleBy('lease', { to: 'completed', reason: 'succeeded' }), state: 'completed' },
  fail: { deed: settleBy('lease', { to: 'failed', reason: 'permanent_failure', failure: FAILURE }), state: 'failed' },
  retry: {
    deed: settleBy('lease', { to: 'retrying', reason: 'temporary_failure', delayMs: 9_000 }),
    state: 'retrying',
  },
};

const RESCUES: Record<string, { deed: Deed; state: string }> = {
  requeue: { deed: settleBy('dead_worker', { to: 'retrying', reason: 'worker_lost', delayMs: 0 }), state: 'scheduled' },
  giveUp: { deed: settleBy('dead_worker', { to: 'dead_letter', reason: 'attempts_exhausted' }), state: 'dead_letter' },
  cancel: { deed: settleBy('dead_worker', { to: 'cancelled', reason: 'cancelled' }), state: 'cancelled' },
};

const OTHERS: Record<string, Deed> = { beat, report, ask };

type Acted = { landed: boolean; beganAt: number; doneAt: number };

/** Steps are counted over all actors, so that `doneAt < beganAt` means: committed before the other began. */
async function act(
  scheduler: fc.Scheduler,
  name: string,
  params: { deed: Deed; job: LeasedTestJob; steps: { count: number } },
): Promise<Acted> {
  const { deed, job, steps } = params;
  const client = await ledger.db.workers.connect();
  const step = (what: string) => scheduler.schedule(Promise.resolve(++steps.count), `${name} ${what}`);
  try {
    await step('begins');
    const beganAt = ++steps.count;
    await client.query('BEGIN');
    await step('writes');
    const landed = await deed(client, job);
    await step('commits');
    await client.query('COMMIT');
    return { landed, beganAt, doneAt: ++steps.count };
  } catch (error) {
    await client.query('ROLLBACK');
    throw error;
  } finally {
    client.release();
  }
}

/** A running job whose worker has been silent for longer than its lease. */
async function abandonedJob(): Promise<LeasedTestJob> {
  const job = await ledger.start(await ledger.submitOne({ policy: { leaseMs: LEASE_MS } }));
  await ledger.db.api.query(
    `UPDATE millrace.workers SET beat_at = millrace.clock() - interval '${LEASE_MS + 1} ms' WHERE id = $1`,
    [job.workerId],
  );
  return job;
}

const race = fc.record({
  own: fc.constantFrom(...Object.keys(OWN)),
  rescue: fc.constantFrom(...Object.keys(RESCUES)),
  others: fc.subarray(Object.keys(OTHERS)),
  rescuers: fc.integer({ min: 1, max: 2 }),
});

