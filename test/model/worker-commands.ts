/** What workers do with the leases they have, and with those they lost without knowing. */
import fc from 'fast-check';
import { expect } from 'vitest';
import { decide, type Outcome } from '../../src/core/decide.ts';
import { claimAndStart } from '../../src/ledger/attempts/claim-and-start.ts';
import { claimJobs } from '../../src/ledger/attempts/claim-jobs.ts';
import { completeJobs } from '../../src/ledger/attempts/complete-jobs.ts';
import { reportProgress, saveCheckpoint } from '../../src/ledger/attempts/fenced-writes.ts';
import { heartbeat } from '../../src/ledger/attempts/heartbeat.ts';
import { returnJobs } from '../../src/ledger/attempts/return-jobs.ts';
import { checkLanded, settleJobs } from '../../src/ledger/attempts/settle-jobs.ts';
import { startJobs } from '../../src/ledger/attempts/start-jobs.ts';
import { settled } from '../ledger/fixture.ts';
import { anyOf, commandOf, hasLeases, leaseChoice, pick, pickAhead, pickLease, workerIds } from './command.ts';
import type { Ending, Model } from './model.ts';
import { type GivenLease, isHeldBy, permanentFailuresOf } from './model-job.ts';
import { rangesOf, type System, TYPES } from './system.ts';

export const typesOf = fc.subarray(TYPES, { minLength: 1 });

export const toLease = ({ orgId }: System, { seq, leaseSeq }: GivenLease) => ({ orgId, seq, leaseSeq });

export type Claiming = { workerId: number; types: readonly string[]; limit: number };

export async function claimFor(model: Model, system: System, { workerId, types, limit }: Claiming): Promise<void> {
  const claimNo = system.claimsOf(workerId).next();
  const { jobs: given } = await claimJobs(system.workers, { workerId, ranges: rangesOf(types), limit, claimNo });
  const expected = model.takeFromLine(types, limit).map((job) => job.id);
  system.receive(model, { workerId, claimNo, expected, given });
}

export const claim = commandOf({
  name: 'claim',
  given: fc.record({ worker: anyOf, types: typesOf, limit: fc.integer({ min: 1, max: 3 }) }),
  run: ({ worker, types, limit }, model, system) => claimFor(model, system, { workerId: pick(workerIds(model), worker), types, limit }),
});

/** A handler of a job that was leased ahead may have run for a while. */
export const start = commandOf({
  name: 'start',
  given: fc.record({ lease: leaseChoice, ranMs: fc.constantFrom(0, 0, 3, 2_000) }),
  isPossible: hasLeases,
  run: async ({ lease: choice, ranMs }, model, system) => {
    const lease = pickLease(model, choice);
    if (lease === null) return;
    const jobs = [{ ...toLease(system, lease), ranMs }];
    const { started } = await startJobs(system.workers, { workerId: lease.workerId, jobs });
    const expected = model.start(lease, ranMs) ? [[lease.leaseSeq, lease.job.attempts]] : [];
    const attempts = [...started].map(([leaseSeq, { attemptsStarted }]) => [leaseSeq, attemptsStarted]);
    expect(attempts, 'attempts that started').toEqual(expected);
  },
});

const SUCCESS: Ending = { to: 'completed', reason: 'succeeded', delayMs: null, refunds: false, holds: false };

type Advancing = Claiming & { finished: readonly GivenLease[] };

export async function advanceFor(model: Model, system: System, params: Advancing): Promise<void> {
  const { workerId, types, limit, finished } = params;
  const claims = system.claimsOf(workerId);
  const claimNo = claims.next();
  const answer = await completeJobs(system.workers, {
    workerId,
    finished: finished.map((lease) => ({ ...toLease(system, lease), result: '{"ok":true}' })),
    closedClaims: claims.takeClosed(),
  });
  const landed = finished.filter((lease) => model.settle(lease, SUCCESS)).map((lease) => lease.leaseSeq);
  expect([...answer.landed].toSorted(), 'jobs that were finished').toEqual(landed.toSorted());
  for (const lease of finished) system.letGo(lease);
  const { jobs: given } = await claimAndStart(system.workers, { workerId, ranges: rangesOf(types), limit, claimNo });
  const expected = model.takeFromLine(types, limit).map((job) => job.id);
  for (const lease of system.receive(model, { workerId, claimNo, expected, given })) model.start(lease);
}

/** The hot path: finish some jobs, zombies among them, then claim and start others. */
export const advance = commandOf({
  name: 'advance',
  given: fc.record({
    worker: anyOf,
    finished: fc.array(leaseChoice, { maxLength: 3 }),
    types: typesOf,
    limit: fc.integer({ min: 0, max: 3 }),
  }),
  run: async ({ worker, finished: choices, types, limit }, model, system) => {
    const first = choices[0] === undefined ? null : pickLease(model, choices[0]);
    const workerId = first?.workerId ?? pick(workerIds(model), worker);
    const picked = choices.map((choice) => pickLease(model, choice, workerId)).filter((lease) => lease !== null);
    await advanceFor(model, system, { workerId, types, limit, finished: [...new Set(picked)] });
  },
});

const failure = (category: 'TEMPORARY' | 'PERMANENT' | 'TIMEOUT' | 'SYSTEM', retryAfterMs?: number): Outcome => ({
  kind: 'failed',
  failure: { category, code: 'BOOM', message: 'it broke', ...(retryAfterMs === undefined ? {} : { retryAfterMs }) },
});

const outcomeOf = fc.constantFrom<Outcome>(
  { kind: 'succeeded' },
  failure('TEMPORARY'),
  failure('TEMPORARY', 20_000),
  failure('TIMEOUT'),
  failure('SYSTEM'),
  failure('PERMANENT'),
  { kind: 'cancelled' },
  { kind: 'released' },
  { kind: 'lifetime_exceeded' },
);

/** How the attempt ends by the same rules that the engine decides by. */
export function endingOf(model: Model, { job }: GivenLease, params: { outcome: Outcome; random: number; holds: boolean }) {
  const { outcome, random, holds } = params;
  const { transition, delayMs, failure } = decide({
    outcome,
    job: {
      attemptsStarted: job.attempts,
      maxAttempts: job.maxAttempts,
      lifetimeDeadlineMs: job.deadlineMs,
      permanentFailures: permanentFailuresOf(job),
    },
    policy: job.policy,
    random,
    nowMs: model.nowMs,
  });
  const ending: Ending = {
    to: transition.to,
    reason: transition.reason,
    delayMs: delayMs ?? null,
    refunds: outcome.kind === 'released',
    holds,
  };
  return { ending, failure: failure === undefined ? null : JSON.stringify(failure) };
}

/** Complete, fail, obey a cancel or give back, each decided by the attempt's own worker. */
export const settle = commandOf({
  name: 'settle',
  given: fc.record({
    lease: leaseChoice,
    outcome: outcomeOf,
    random: fc.double({ min: 0, max: 0.999, noNaN: true }),
    holds: fc.boolean(),
  }),
  isPossible: hasLeases,
  run: async (given, model, system) => {
    const lease = pickLease(model, given.lease);
    if (lease === null) return;
    const { ending, failure } = endingOf(model, lease, given);
    const { refunds: refundsAttempt, ...outcome } = ending;
    const { workerId, leaseSeq } = lease;
    const { landed } = await settleJobs(system.workers, {
      workerId,
      jobs: [settled(toLease(system, lease), { ...outcome, refundsAttempt, failure })],
      by: 'lease',
      closedClaims: system.claimsOf(workerId).takeClosed(),
    });
    const hadEnded = endedItself(lease);
    const isOurs = model.settle(lease, ending);
    expect([...landed], 'attempts that were ended').toEqual(isOurs ? [leaseSeq] : []);
    if (!isOurs) expect([...(await checkLanded(system.workers, [toLease(system, lease)]))]).toEqual(hadEnded ? [leaseSeq] : []);
    system.letGo(lease);
  },
});

/** Whether this worker ended the attempt before, and no other attempt came after it. */
export function endedItself({ job, leaseSeq }: GivenLease): boolean {
  const newestStart = job.history.findLast((entry) => entry.to === 'running');
  if (newestStart?.leaseSeq !== leaseSeq) return false;
  return job.held || job.history.some((entry) => entry.from === 'running' && entry.leaseSeq === leaseSeq && entry.workerId !== null);
}

export async function giveBackFor(model: Model, system: System, lease: GivenLease): Promise<void> {
  const { workerId, leaseSeq } = lease;
  const closedClaims = system.claimsOf(workerId).takeClosed();
  const params = { workerId, jobs: [toLease(system, lease)], closedClaims };
  const { landed, cancelled } = await returnJobs(system.workers, params);
  const fate = model.giveBack(lease);
  const expected = { landed: fate === 'returned' ? [leaseSeq] : [], cancelled: fate === 'cancelled' ? [leaseSeq] : [] };
  expect({ landed: [...landed], cancelled: [...cancelled] }, 'leases that were given back').toEqual(expected);
  system.letGo(lease);
}

export const giveBack = commandOf({
  name: 'giveBack',
  given: leaseChoice,
  isPossible: hasLeases,
  run: async (given, model, system) => {
    const lease = pickAhead(model, given);
    if (lease !== null) await giveBackFor(model, system, lease);
  },
});

/** The worker presents everything it believes to hold, and learns what it lost. */
export const beat = commandOf({
  name: 'beat',
  given: fc.record({ worker: anyOf, forgotten: fc.boolean() }),
  run: async ({ worker, forgotten }, model, system) => {
    const workerId = pick(workerIds(model), worker);
    const claims = system.claimsOf(workerId);
    const own = model.leases.filter((lease) => lease.workerId === workerId);
    const presented = forgotten ? own : own.filter((lease) => claims.holds(lease.leaseSeq));
    const answer = await heartbeat(system.workers, {
      workerId,
      jobs: presented.map((lease) => toLease(system, lease)),
    });
    const lost = presented.filter((lease) => !isHeldBy(lease));
    const cancels = presented
      .filter((lease) => isHeldBy(lease) && lease.job.cancel !== null)
      .map(({ leaseSeq, job }) => ({ leaseSeq, force: job.cancel === 'force' }));
    const inOrder = ({ lost, cancels, ...rest }: typeof answer) => ({
      ...rest,
      lost: lost.toSorted((a, b) => a - b),
      cancels: cancels.toSorted((a, b) => a.leaseSeq - b.leaseSeq),
    });
    const alive = model.beat(workerId);
    const expected = { alive, lost: lost.map((lease) => lease.leaseSeq), cancels };
    expect(inOrder(answer), 'the answer to a heartbeat').toEqual(inOrder(expected));
    for (const lease of lost) system.letGo(lease);
  },
});

/** Reports are fenced by the lease alone: nobody but its worker ever saw its number. */
const speaks = ({ job, leaseSeq }: GivenLease): boolean => job.state === 'running' && job.leaseSeq === leaseSeq;

const answerTo = (lease: GivenLease) =>
  speaks(lease) ? { landed: true, cancelRequested: lease.job.cancel } : { landed: false, cancelRequested: null };

export const progress = commandOf({
  name: 'progress',
  given: fc.record({ lease: leaseChoice, percent: fc.integer({ min: 0, max: 100 }) }),
  isPossible: hasLeases,
  run: async ({ lease: choice, percent }, model, system) => {
    const lease = pickLease(model, choice);
    if (lease === null) return;
    const answer = await reportProgress(system.workers, { ...toLease(system, lease), percent, message: null });
    expect(answer, 'the answer to a progress report').toEqual(answerTo(lease));
    if (speaks(lease)) lease.job.percent = percent;
  },
});

export const checkpoint = commandOf({
  name: 'checkpoint',
  given: fc.record({ lease: leaseChoice, text: fc.constantFrom('one', 'two', 'three') }),
  isPossible: hasLeases,
  run: async ({ lease: choice, text }, model, system) => {
    const lease = pickLease(model, choice);
    if (lease === null) return;
    const answer = await saveCheckpoint(system.workers, { ...toLease(system, lease), state: Buffer.from(text) });
    expect(answer, 'the answer to a checkpoint').toEqual(answerTo(lease));
    if (speaks(lease)) lease.job.checkpoint = { text, leaseSeq: lease.leaseSeq };
  },
});
