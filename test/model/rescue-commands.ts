/** What the rescuer does with the jobs of workers that died or seem to have. */
import fc from 'fast-check';
import { expect } from 'vitest';
import { findOrphans, type Orphan } from '../../src/ledger/attempts/find-orphans.ts';
import { heartbeat } from '../../src/ledger/attempts/heartbeat.ts';
import { returnExpired } from '../../src/ledger/attempts/return-jobs.ts';
import { settleJobs } from '../../src/ledger/attempts/settle-jobs.ts';
import { presumeStarted, settleOrphans } from '../../src/ledger/attempts/settle-orphans.ts';
import { startJobs } from '../../src/ledger/attempts/start-jobs.ts';
import { settled } from '../ledger/fixture.ts';
import { completeLateFor, leaseAheadFor } from './ahead-commands.ts';
import { anyOf, commandOf, pick } from './command.ts';
import type { Model } from './model.ts';
import { type GivenLease, isHeldBy, mayRun, mayRunBy } from './model-job.ts';
import { type System, TYPES } from './system.ts';
import { advanceFor, claimFor, endingOf, toLease } from './worker-commands.ts';

const LIMIT = 1_000;

/** What the look decides to do with a job, whatever happens to it before the deed. */
type Fate = 'started' | 'presumed' | 'unstarted';
type Claimed = { lease: GivenLease; fate: Fate };

export function fateOf(lease: GivenLease): Claimed {
  const { job } = lease;
  if (job.state === 'running') return { lease, fate: 'started' };
  return { lease, fate: mayRun(job) && job.policy.onOrphan !== 'fail' ? 'presumed' : 'unstarted' };
}

/** What may come between the rescuer's look and its deed. `death`: the rescuer itself dies after it presumed starts. */
const INTERFERENCES = ['none', 'none', 'beat', 'complete', 'start', 'death'] as const;

export const rescue = commandOf({
  name: 'rescue',
  given: fc.record({
    interference: fc.constantFrom(...INTERFERENCES),
    choice: anyOf,
    random: fc.constantFrom(0, 0.5, 0.9),
  }),
  run: async ({ interference, choice, random }, model, system) => {
    const orphans = await look(model, system);
    const taken = orphans.map((orphan) => fateOf(leaseOf(model, orphan)));
    if (taken.length === 0) return;
    const { lease } = pick(taken, choice);
    if (interference === 'beat') await beatOf(model, system, lease.workerId);
    if (interference === 'complete') await completionOf(model, system, lease);
    if (interference === 'start') await startOf(model, system, lease);
    const beats = new Map(orphans.map(({ workerId, worker }) => [workerId, worker.kind === 'gone' ? null : worker.beat]));
    for (const [workerId, own] of Map.groupBy(taken, (each) => each.lease.workerId)) {
      const deed = { workerId, beat: beats.get(workerId) ?? null, taken: own, random };
      await takeBack(model, system, { ...deed, dies: interference === 'death' });
    }
  },
});

async function look(model: Model, { ledger }: System): Promise<Orphan[]> {
  const orphans = await findOrphans(ledger.db.maintenance, LIMIT);
  const expected = model.jobs
    .filter((job) => job.holder !== null && model.isSilent(job))
    .map((job) => ({
      id: job.id,
      leaseSeq: job.leaseSeq,
      workerId: job.holder,
      state: job.state,
      mayRun: mayRun(job),
      attemptsStarted: job.attempts,
      maxAttempts: job.maxAttempts,
      lifetimeLeftMs: job.deadlineMs === null ? null : job.deadlineMs - model.nowMs,
      cancelRequested: job.cancel !== null,
      // No worker of the model blocks its event loop.
      wasStalled: false,
    }));
  const found = orphans.map(({ orgId, seq, policyId, jobType, tags, createdAtMs, worker, leaseMs, ...orphan }) => orphan);
  const byId = (a: { id: string }, b: { id: string }) => (a.id < b.id ? -1 : 1);
  expect(found.toSorted(byId), 'the orphans').toEqual(expected.toSorted(byId));
  return orphans;
}

function leaseOf(model: Model, { leaseSeq }: Orphan): GivenLease {
  const lease = model.leases.find((each) => each.leaseSeq === leaseSeq);
  if (lease === undefined) throw new Error(`nobody was given lease ${leaseSeq}`);
  return lease;
}

export async function beatOf(model: Model, system: System, workerId: number): Promise<void> {
  const { alive } = await heartbeat(system.workers, { workerId, jobs: [] });
  expect(alive).toBe(model.beat(workerId));
}

async function completionOf(model: Model, system: System, lease: GivenLease): Promise<void> {
  const { workerId } = lease;
  if (mayRunBy(lease)) {
    const ends = [{ lease, agoMs: 5, ranMs: 3 }];
    return completeLateFor(model, system, { workerId, ends, skipsLocked: false });
  }
  const success = { to: 'completed', reason: 'succeeded' } as const;
  const jobs = [settled(toLease(system, lease), success)];
  const { landed } = await settleJobs(system.workers, { workerId, jobs, by: 'lease', closedClaims: [] });
  expect(landed.size).toBe(model.settle(lease, { ...success, delayMs: null, refunds: false, holds: false }) ? 1 : 0);
}

async function startOf(model: Model, system: System, lease: GivenLease): Promise<void> {
  const jobs = [{ ...toLease(system, lease), ranMs: 4 }];
  const { started } = await startJobs(system.workers, { workerId: lease.workerId, jobs });
  expect(started.has(lease.leaseSeq), 'a start before the rescue').toBe(model.start(lease, 4));
}

type Deed = { workerId: number; beat: number | null; taken: readonly Claimed[]; random: number; dies?: boolean };

/** As the rescuer does it; a job that moved since the look is not taken. */
export async function takeBack(model: Model, system: System, deed: Deed): Promise<void> {
  const { taken, dies = false } = deed;
  const leasesWith = (wanted: Fate) => taken.filter(({ fate }) => fate === wanted).map(({ lease }) => lease);
  await putBack(model, system, deed, leasesWith('unstarted'));
  const presumed = await presumeFor(model, system, deed, leasesWith('presumed'));
  if (!dies) await endAttempts(model, system, deed, { started: leasesWith('started'), presumed });
}

type Hold = Pick<Deed, 'workerId' | 'beat'>;

async function putBack(model: Model, { ledger, orgId }: System, { workerId, beat }: Hold, leases: readonly GivenLease[]): Promise<void> {
  const jobs = leases.map((lease) => ({ orgId, ...lease }));
  const { landed, cancelled } = await returnExpired(ledger.db.maintenance, { workerId, beat, jobs });
  const fates = Map.groupBy(leases, (lease) => model.giveBack(lease, 'dead_worker'));
  const found = { returned: [...landed].toSorted(), cancelled: [...cancelled].toSorted() };
  const expected = { returned: numbersOf(fates.get('returned')), cancelled: numbersOf(fates.get('cancelled')) };
  expect(found, 'leases taken from silent workers').toEqual(expected);
}

async function presumeFor(
  model: Model,
  { ledger, orgId }: System,
  { workerId, beat }: Hold,
  leases: readonly GivenLease[],
): Promise<GivenLease[]> {
  const jobs = leases.map((lease) => ({ orgId, ...lease }));
  const { presumed } = await presumeStarted(ledger.db.maintenance, { workerId, beat, jobs });
  const begun = leases.filter((lease) => model.presume(lease));
  expect([...presumed].toSorted(), 'starts that were presumed').toEqual(numbersOf(begun));
  return begun;
}

async function endAttempts(
  model: Model,
  { ledger, orgId }: System,
  { workerId, beat, random }: Deed,
  { started, presumed }: { started: readonly GivenLease[]; presumed: readonly GivenLease[] },
): Promise<void> {
  const deeds = [...started, ...presumed].map((lease) => {
    const outcome = lease.job.cancel === null ? ({ kind: 'worker_lost' } as const) : ({ kind: 'cancelled' } as const);
    const { ending, failure } = endingOf(model, lease, { outcome, random, holds: false });
    const refunds = presumed.includes(lease) && ending.to === 'retrying';
    return { lease, failure, ending: { ...ending, refunds } };
  });
  const jobs = deeds.map(({ lease, ending: { refunds: refundsAttempt, ...ending }, failure }) =>
    settled({ orgId, ...lease }, { ...ending, refundsAttempt, failure }),
  );
  const { landed } = await settleOrphans(ledger.db.maintenance, { workerId, beat, jobs });
  const ended = deeds.filter(({ lease, ending }) => model.settle(lease, ending, 'dead_worker'));
  expect([...landed].toSorted(), 'attempts of silent workers').toEqual(numbersOf(ended.map(({ lease }) => lease)));
}

const numbersOf = (leases: readonly GivenLease[] = []): number[] => leases.map((lease) => lease.leaseSeq).toSorted();

export const beatIn = (model: Model, workerId: number): number | null => {
  const worker = model.workers.get(workerId);
  return worker === undefined ? null : worker.beatAtMs * 1_000;
};

const CLAIMS = ['start', 'apart', 'ahead'] as const;

/** A worker freezes for longer than its lease, is rescued, wakes up, and may be given the very jobs it still believes in. */
export const freeze = commandOf({
  name: 'freeze',
  given: fc.record({ lease: anyOf, how: fc.constantFrom(...CLAIMS) }),
  isPossible: (model) => model.leases.some(isHeldBy),
  run: async ({ lease: choice, how }, model, system) => {
    const { workerId, job } = pick(model.leases.filter(isHeldBy), choice);
    model.nowMs += job.policy.leaseMs + 1;
    await system.setClock(model.nowMs);
    const leases = (await look(model, system)).map((orphan) => leaseOf(model, orphan));
    const taken = leases.filter((lease) => lease.workerId === workerId).map(fateOf);
    await takeBack(model, system, { workerId, beat: beatIn(model, workerId), taken, random: 0 });
    await beatOf(model, system, workerId);
    const claiming = { workerId, types: TYPES, limit: 3 };
    if (how === 'start') await advanceFor(model, system, { ...claiming, finished: [] });
    else await (how === 'ahead' ? leaseAheadFor : claimFor)(model, system, claiming);
  },
});
