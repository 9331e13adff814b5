/** What the keepers of the ledger do: stage, release, expire, rescue, bury; and time, which passes. */
import fc from 'fast-check';
import { expect } from 'vitest';
import { expireJobs } from '../../src/ledger/expire-jobs.ts';
import { buryWorkers, findOrphans, type Orphan } from '../../src/ledger/find-orphans.ts';
import { heartbeat } from '../../src/ledger/heartbeat.ts';
import { releaseDependents } from '../../src/ledger/release-dependents.ts';
import { returnExpired } from '../../src/ledger/return-jobs.ts';
import { settleJobs } from '../../src/ledger/settle-jobs.ts';
import { settleOrphans } from '../../src/ledger/settle-orphans.ts';
import { stageJobs } from '../../src/ledger/stage-jobs.ts';
import { declareDead, watchWorkers } from '../../src/ledger/watch-workers.ts';
import { stopWorker } from '../../src/ledger/workers.ts';
import { settled } from '../ledger/fixture.ts';
import { anyOf, commandOf, pick, workerIds } from './command.ts';
import type { Model } from './model.ts';
import { type GivenLease, isHeldBy } from './model-job.ts';
import { type System, TYPES } from './system.ts';
import { advanceFor, claimFor, endingOf } from './worker-commands.ts';

const LIMIT = 1_000;
const nothing = fc.constant({});

export const stage = commandOf({
  name: 'stage',
  given: nothing,
  run: async (_, model, system) => {
    const { staged } = await stageJobs(system.ledger.db.maintenance, { limit: LIMIT, floor: null });
    expect(staged, 'jobs that were staged').toBe(model.stage());
  },
});

/** A failure travels one level of the graph a call, so a drain is several. */
export const release = commandOf({
  name: 'release',
  given: fc.boolean(),
  run: async (drains, model, { ledger }) => {
    do {
      await releaseDependents(ledger.db.maintenance, LIMIT);
      model.release();
    } while (drains && model.news.size > 0);
  },
});

export const expire = commandOf({
  name: 'expire',
  given: nothing,
  run: async (_, model, { ledger }) => {
    const { expired } = await expireJobs(ledger.db.maintenance, LIMIT);
    expect(expired, 'jobs that outlived themselves').toBe(model.expire());
  },
});

/** What may come between the rescuer's look and its deed. */
const INTERFERENCES = ['none', 'none', 'beat', 'complete'] as const;

export const rescue = commandOf({
  name: 'rescue',
  given: fc.record({
    interference: fc.constantFrom(...INTERFERENCES),
    choice: anyOf,
    random: fc.constantFrom(0, 0.5, 0.9),
  }),
  run: async ({ interference, choice, random }, model, system) => {
    const orphans = await look(model, system);
    const leases = orphans.map((orphan) => leaseOf(model, orphan));
    if (leases.length === 0) return;
    if (interference === 'beat') await beatOf(model, system, pick(leases, choice).workerId);
    if (interference === 'complete') await completionOf(model, system, pick(leases, choice));
    const beats = new Map(
      orphans.map(({ workerId, worker }) => [workerId, worker.kind === 'gone' ? null : worker.beat]),
    );
    for (const [workerId, jobs] of Map.groupBy(leases, (lease) => lease.workerId)) {
      await takeBack(model, system, { workerId, beat: beats.get(workerId) ?? null, leases: jobs, random });
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
      attemptsStarted: job.attempts,
      maxAttempts: job.maxAttempts,
      lifetimeLeftMs: job.deadlineMs === null ? null : job.deadlineMs - model.nowMs,
      cancelRequested: job.cancel !== null,
    }));
  const found = orphans.map(
    ({ orgId, seq, policyId, jobType, tags, createdAtMs, worker, leaseMs, ...orphan }) => orphan,
  );
  const byId = (a: { id: string }, b: { id: string }) => (a.id < b.id ? -1 : 1);
  expect(found.toSorted(byId), 'the orphans').toEqual(expected.toSorted(byId));
  return orphans;
}

function leaseOf(model: Model, { leaseSeq }: Orphan): GivenLease {
  const lease = model.leases.find((each) => each.leaseSeq === leaseSeq);
  if (lease === undefined) throw new Error(`nobody was given lease ${leaseSeq}`);
  return lease;
}

async function beatOf(model: Model, system: System, workerId: number): Promise<void> {
  const { alive } = await heartbeat(system.workers, { workerId, jobs: [] });
  expect(alive).toBe(model.beat(workerId));
}

async function completionOf(model: Model, { workers, orgId }: System, lease: GivenLease): Promise<void> {
  const success = { to: 'completed', reason: 'succeeded' } as const;
  const { workerId, seq, leaseSeq } = lease;
  const jobs = [settled({ orgId, seq, leaseSeq }, success)];
  const { landed } = await settleJobs(workers, { workerId, jobs, by: 'lease', closedClaims: [] });
  expect(landed.size).toBe(model.settle(lease, { ...success, delayMs: null, refunds: false, holds: false }) ? 1 : 0);
}

type Deed = { workerId: number; beat: number | null; leases: readonly GivenLease[]; random: number };

/** Whether a job had started is decided by the look, as the rescuer does it; a job that moved since is not taken. */
async function takeBack(model: Model, { ledger, orgId }: System, deed: Deed): Promise<void> {
  const { workerId, beat, leases, random } = deed;
  const db = ledger.db.maintenance;
  const [unstarted, started] = [false, true].map((isStarted) =>
    leases.filter((lease) => hasStarted(lease) === isStarted),
  );
  const idle = (unstarted ?? []).map((lease) => ({ orgId, ...lease }));
  const returned = await returnExpired(db, { workerId, beat, jobs: idle });
  const free = (unstarted ?? []).filter((lease) => model.giveBack(lease, 'dead_worker'));
  expect([...returned.landed].toSorted(), 'leases taken from silent workers').toEqual(numbersOf(free));
  const deeds = (started ?? []).map((lease) => {
    const outcome = lease.job.cancel === null ? ({ kind: 'worker_lost' } as const) : ({ kind: 'cancelled' } as const);
    return { lease, ...endingOf(model, lease, { outcome, random, holds: false }) };
  });
  const jobs = deeds.map(({ lease, ending: { refunds: refundsAttempt, ...ending }, failure }) =>
    settled({ orgId, ...lease }, { ...ending, refundsAttempt, failure }),
  );
  const { landed } = await settleOrphans(db, { workerId, beat, jobs });
  const ended = deeds.filter(({ lease, ending }) => model.settle(lease, ending, 'dead_worker'));
  expect([...landed].toSorted(), 'attempts of silent workers').toEqual(numbersOf(ended.map(({ lease }) => lease)));
}

const hasStarted = ({ job, leaseSeq }: GivenLease): boolean =>
  job.history.some((entry) => entry.to === 'running' && entry.leaseSeq === leaseSeq);

const numbersOf = (leases: readonly GivenLease[]): number[] => leases.map((lease) => lease.leaseSeq).toSorted();

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
/** Mostly within leases and past backoffs; at times past the leases, the lifetimes, and rarely a day. */
const SPANS = [
  1,
  SECOND,
  5 * SECOND,
  30 * SECOND,
  61 * SECOND,
  61 * SECOND,
  11 * MINUTE,
  61 * MINUTE,
  130 * MINUTE,
  25 * 60 * MINUTE,
];

/** The workers of the mask keep beating meanwhile; the others seem dead, until they come back with a beat or a write. */
export const pass = commandOf({
  name: 'pass',
  given: fc.record({
    spanMs: fc.constantFrom(...SPANS),
    beating: fc.array(fc.boolean(), { minLength: 3, maxLength: 3 }),
  }),
  run: async ({ spanMs, beating }, model, system) => {
    model.nowMs += spanMs;
    await system.setClock(model.nowMs);
    for (const [index, workerId] of workerIds(model).entries()) {
      if (beating[index % beating.length]) await beatOf(model, system, workerId);
    }
  },
});

/** A worker freezes for longer than its lease, is rescued, wakes up, and may be given the very jobs it still believes in. */
export const freeze = commandOf({
  name: 'freeze',
  given: fc.record({ lease: anyOf, starts: fc.boolean() }),
  isPossible: (model) => model.leases.some(isHeldBy),
  run: async ({ lease: choice, starts }, model, system) => {
    const { workerId, job } = pick(model.leases.filter(isHeldBy), choice);
    model.nowMs += job.policy.leaseMs + 1;
    await system.setClock(model.nowMs);
    const leases = (await look(model, system)).map((orphan) => leaseOf(model, orphan));
    const own = leases.filter((lease) => lease.workerId === workerId);
    await takeBack(model, system, { workerId, beat: beatIn(model, workerId), leases: own, random: 0 });
    await beatOf(model, system, workerId);
    const claiming = { workerId, types: TYPES, limit: 3 };
    await (starts ? advanceFor(model, system, { ...claiming, finished: [] }) : claimFor(model, system, claiming));
  },
});

/** A worker stops without giving back, and another takes its place. */
export const replaceWorker = commandOf({
  name: 'replaceWorker',
  given: anyOf,
  isPossible: (model) => model.workers.size < 6,
  run: async (choice, model, system) => {
    const workerId = pick(workerIds(model), choice);
    const worker = model.workers.get(workerId);
    expect(await stopWorker(system.workers, workerId)).toBe(worker?.isStopped === false);
    if (worker !== undefined) worker.isStopped = true;
    await system.addWorker(model);
  },
});

const DAY = 24 * 60 * MINUTE;

export const bury = commandOf({
  name: 'bury',
  given: nothing,
  run: async (_, model, { ledger }) => {
    for (const { id, beat, isLongGone } of await watchWorkers(ledger.db.maintenance)) {
      const worker = model.workers.get(id);
      expect(isLongGone, 'silent for a day').toBe(worker !== undefined && worker.beatAtMs < model.nowMs - DAY);
      expect(await declareDead(ledger.db.maintenance, { id, beat }), 'workers that were given up').toBe(isLongGone);
      if (isLongGone && worker !== undefined) worker.isStopped = true;
    }
    await buryWorkers(ledger.db.maintenance);
  },
});

const beatIn = (model: Model, workerId: number): number | null => {
  const worker = model.workers.get(workerId);
  return worker === undefined ? null : worker.beatAtMs * 1_000;
};

/** After everybody died: with time alone, whatever can end or wait in line does. Nothing stays with the dead. */
export async function settleDown(model: Model, system: System): Promise<void> {
  for (const spanMs of [DAY, 40 * DAY]) {
    model.nowMs += spanMs;
    await system.setClock(model.nowMs);
    for (const workerId of model.workers.keys())
      await takeBack(model, system, {
        workerId,
        beat: beatIn(model, workerId),
        random: 0,
        leases: model.leases.filter((lease) => lease.workerId === workerId && isHeldBy(lease)),
      });
    await stageJobs(system.ledger.db.maintenance, { limit: LIMIT, floor: null });
    model.stage();
    await expireJobs(system.ledger.db.maintenance, LIMIT);
    model.expire();
    while (model.news.size > 0) {
      await releaseDependents(system.ledger.db.maintenance, LIMIT);
      model.release();
    }
  }
}
