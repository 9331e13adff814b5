/** What workers do with jobs that they leased ahead: run them first, and write their start with their outcome. */
import fc from 'fast-check';
import { expect } from 'vitest';
import { leaseAhead, mayStartLate } from '../../src/ledger/attempts/claim-jobs.ts';
import { completeLateJobs } from '../../src/ledger/attempts/complete-jobs.ts';
import { checkLanded } from '../../src/ledger/attempts/settle-jobs.ts';
import { anyOf, commandOf, hasLeases, leaseChoice, pick, pickAhead, workerIds } from './command.ts';
import type { LateEnd, Model } from './model.ts';
import { mayRun, mayRunBy } from './model-job.ts';
import { rangesOf, type System } from './system.ts';
import { type Claiming, endedItself, giveBackFor, toLease, typesOf } from './worker-commands.ts';

export async function leaseAheadFor(model: Model, system: System, { workerId, types, limit }: Claiming): Promise<void> {
  const claimNo = system.claimsOf(workerId).next();
  const { jobs: given } = await leaseAhead(system.workers, { workerId, ranges: rangesOf(types), limit, claimNo });
  const expected = model.takeFromLine(types, limit).map((job) => job.id);
  const leases = system.receive(model, { workerId, claimNo, expected, given, how: 'ahead' });
  const late = leases.filter(({ job }) => mayRun(job)).map(({ leaseSeq }) => leaseSeq);
  const allowed = given.filter(mayStartLate).map(({ leaseSeq }) => leaseSeq);
  expect(allowed.toSorted(), 'jobs that may run before their start is written').toEqual(late.toSorted());
}

export const leaseSomeAhead = commandOf({
  name: 'leaseAhead',
  given: fc.record({ worker: anyOf, types: typesOf, limit: fc.integer({ min: 1, max: 4 }) }),
  run: ({ worker, types, limit }, model, system) =>
    leaseAheadFor(model, system, { workerId: pick(workerIds(model), worker), types, limit }),
});

/** A worker returns a job that may run, and is given it again: it has two leases of the job, of which the first is lost. */
export const leaseAgain = commandOf({
  name: 'leaseAgain',
  given: anyOf,
  isPossible: (model) => model.leases.some(mayRunBy),
  run: async (choice, model, system) => {
    const lease = pick(model.leases.filter(mayRunBy), choice);
    await giveBackFor(model, system, lease);
    await leaseAheadFor(model, system, { workerId: lease.workerId, types: [lease.job.type], limit: 3 });
  },
});

/** How long ago a handler was called, and how long it took. Some were called before their job was ready, as clocks of two hosts say. */
const spansOf = fc.constantFrom(
  { agoMs: 0, ranMs: 0 },
  { agoMs: 7, ranMs: 2 },
  { agoMs: 1_500, ranMs: 1_000 },
  { agoMs: 90_000, ranMs: 100 },
);

type LateCompletion = { workerId: number; ends: readonly (LateEnd & { ranMs: number })[]; skipsLocked: boolean };

export async function completeLateFor(model: Model, system: System, params: LateCompletion): Promise<void> {
  const { workerId, ends, skipsLocked } = params;
  const finished = ends.map(({ lease, ...spans }) => ({ ...toLease(system, lease), result: '{"ok":true}', ...spans }));
  const closedClaims = system.claimsOf(workerId).takeClosed();
  const answer = await completeLateJobs(system.workers, { workerId, finished, closedClaims }, { skipsLocked });
  const hadEnded = new Set(ends.filter(({ lease }) => endedItself(lease)).map(({ lease }) => lease.leaseSeq));
  const landed = model.completeLate(ends).map((lease) => lease.leaseSeq);
  expect([...answer.landed].toSorted(), 'jobs that were finished late').toEqual(landed.toSorted());
  expect([...answer.held], 'jobs that nobody holds').toEqual([]);
  const lost = ends.filter(({ lease }) => !landed.includes(lease.leaseSeq)).map(({ lease }) => lease);
  const before = await checkLanded(
    system.workers,
    lost.map((lease) => toLease(system, lease)),
  );
  const expected = lost.map((lease) => lease.leaseSeq).filter((leaseSeq) => hadEnded.has(leaseSeq));
  expect([...before].toSorted(), 'attempts that had ended before').toEqual(expected.toSorted());
  for (const { lease } of ends) system.letGo(lease);
}

/** Leases that hold and leases that were lost, in one statement. */
export const completeLate = commandOf({
  name: 'completeLate',
  given: fc.record({
    ends: fc.array(fc.record({ lease: leaseChoice, spans: spansOf }), { minLength: 1, maxLength: 4 }),
    skipsLocked: fc.boolean(),
  }),
  isPossible: hasLeases,
  run: async ({ ends: choices, skipsLocked }, model, system) => {
    const first = choices[0] === undefined ? null : pickAhead(model, choices[0].lease);
    if (first === null) return;
    const { workerId } = first;
    const ends = choices.flatMap(({ lease: choice, spans }, index) => {
      const lease = index === 0 ? first : pickAhead(model, choice, workerId);
      return lease === null ? [] : [{ lease, ...spans }];
    });
    const once = new Map(ends.map((end) => [end.lease, end]));
    await completeLateFor(model, system, { workerId, ends: [...once.values()], skipsLocked });
  },
});
