/**
 * The end of an attempt against its rescue, statement by statement. Each actor has a connection and a transaction of its
 * own; fast-check chooses whose BEGIN, statement or COMMIT comes next, so locks are met in every order.
 *
 * MODEL_RUNS=5000 vitest run test/model/races.test.ts    for a long run
 */
import fc from 'fast-check';
import type pg from 'pg';
import { beforeAll, expect, test } from 'vitest';
import { isTerminal } from '../../src/core/states.ts';
import { advanceJobs } from '../../src/ledger/advance-jobs.ts';
import { cancelJobs } from '../../src/ledger/cancel-jobs.ts';
import { heartbeat } from '../../src/ledger/heartbeat.ts';
import { checkInvariants } from '../../src/ledger/invariants.ts';
import { reportProgress } from '../../src/ledger/report-progress.ts';
import { type SettledJob, settleJobs } from '../../src/ledger/settle-jobs.ts';
import { type LeasedTestJob, settled, useLedger } from '../ledger/fixture.ts';
import { stopClock } from './system.ts';

const RUNS = Number(process.env.MODEL_RUNS ?? 150);
const LEASE_MS = 60_000;

const ledger = useLedger();
beforeAll(() => stopClock(ledger));

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

test('of an attempt that ends and a rescue of it exactly one lands, whatever the order of their statements', {
  timeout: 30_000 + RUNS * 1_000,
}, async () => {
  const seen = new Map<string, number>();
  const property = fc.asyncProperty(fc.scheduler(), race, async (scheduler, { own, rescue, others, rescuers }) => {
    const job = await abandonedJob();
    const steps = { count: 0 };
    const ended = act(scheduler, own, { deed: OWN[own]!.deed, job, steps });
    const rescued = Array.from({ length: rescuers }, () =>
      act(scheduler, rescue, { deed: RESCUES[rescue]!.deed, job, steps }),
    );
    const beside = others.map((name) => act(scheduler, name, { deed: OTHERS[name]!, job, steps }));
    const [end, rescues, rest] = await scheduler.waitFor(
      Promise.all([ended, Promise.all(rescued), Promise.all(beside)]),
    );

    const winners = [end, ...rescues].filter((acted) => acted.landed);
    expect(winners, 'deeds that landed').toHaveLength(1);
    seen.set(end.landed ? 'end' : 'rescue', (seen.get(end.landed ? 'end' : 'rescue') ?? 0) + 1);
    const state = end.landed ? OWN[own]!.state : RESCUES[rescue]!.state;
    const mayBeCancelled = others.includes('ask') && !isTerminal(state as never);
    expect([state, ...(mayBeCancelled ? ['cancelled'] : [])]).toContain(await ledger.stateOf(job));
    const beaten = rest[others.indexOf('beat')];
    for (const each of rescues) {
      if (beaten !== undefined && beaten.doneAt < each.beganAt)
        expect(each.landed, 'a rescue after a beat').toBe(false);
    }
    const ends = (await ledger.eventsOf(job)).filter((event) => isTerminal(event.to_state));
    expect(ends.length, 'ends in the history').toBe(isTerminal(await ledger.stateOf(job)) ? 1 : 0);
  });
  await fc.assert(property, { numRuns: RUNS });
  expect(await checkInvariants(ledger.db.maintenance)).toEqual([]);
  expect(Math.min(seen.get('end') ?? 0, seen.get('rescue') ?? 0), 'races that each side won').toBeGreaterThan(0);
});
