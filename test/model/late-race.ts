/** What a worker does with a job that it leased ahead, against its rescue and against callers that cancel it. */
import fc from 'fast-check';
import { expect } from 'vitest';
import { isTerminal } from '../../src/core/states.ts';
import { completeLateJobs } from '../../src/ledger/attempts/complete-jobs.ts';
import { returnJobs } from '../../src/ledger/attempts/return-jobs.ts';
import { presumeStarted } from '../../src/ledger/attempts/settle-orphans.ts';
import { startJobs } from '../../src/ledger/attempts/start-jobs.ts';
import type { TestLedger } from '../ledger/fixture.ts';
import { lateJob, newJobAhead } from '../ledger/lease-ahead.ts';
import { type AbandonedJob, type Acted, abandoned, type Deed, LEASE_MS, OTHERS, Stage, settleBy, the } from './race.ts';
import type { Wire } from './system.ts';

const completeBy =
  (options: { skipsLocked: boolean }): Deed =>
  async (db, job) => {
    const params = { workerId: job.workerId, finished: [lateJob(job, { agoMs: 2, ranMs: 1 })], closedClaims: [] };
    const { landed, held } = await completeLateJobs(db, params, options);
    if (!held.has(job.leaseSeq)) return landed.has(job.leaseSeq);
    // A worker tries again later what another transaction holds; here it waits for that transaction.
    return (await completeLateJobs(db, params)).landed.has(job.leaseSeq);
  };

const start: Deed = async (db, job) => {
  const jobs = [{ ...job, ranMs: 1 }];
  return (await startJobs(db, { workerId: job.workerId, jobs })).started.has(job.leaseSeq);
};

const giveBack: Deed = async (db, job) => {
  const { landed, cancelled } = await returnJobs(db, { workerId: job.workerId, jobs: [job], closedClaims: [] });
  return landed.has(job.leaseSeq) || cancelled.has(job.leaseSeq);
};

const presume: Deed = async (db, job) => {
  const { presumed } = await presumeStarted(db, { workerId: job.workerId, beat: job.beat, jobs: [job] });
  return presumed.has(job.leaseSeq);
};

const OWN: Record<string, { deed: Deed; path: string }> = {
  complete: { deed: completeBy({ skipsLocked: false }), path: 'started succeeded' },
  completeFree: { deed: completeBy({ skipsLocked: true }), path: 'started succeeded' },
  start: { deed: start, path: 'started' },
  giveBack: { deed: giveBack, path: '' },
};

const LOST = { to: 'retrying', reason: 'worker_lost', delayMs: 0, refundsAttempt: true } as const;
const settle = settleBy('dead_worker', LOST);

/** The rescuer's two statements, each in a transaction, and the job's path if both land. */
const RESCUED = 'started worker_lost worker_lost';

const drawn = fc.record({
  own: fc.constantFrom(...Object.keys(OWN)),
  others: fc.subarray(['beat', 'ask']),
  rescuers: fc.integer({ min: 0, max: 2 }),
});

/** How the races went, to see that they were races. */
export type LateTally = { own: number; rescues: number; overlaps: number };

export function lateRaceProperty(ledger: TestLedger, tally: LateTally, wire: Wire = (db) => db) {
  const stage = new Stage(ledger, wire);
  const act = (release: () => Promise<unknown>) => release().then(() => stage.untilQuiet());
  return fc.asyncProperty(fc.scheduler({ act }), drawn, async (scheduler, { own, others, rescuers }) => {
    const job = await abandoned(ledger, await newJobAhead(ledger, { policy: { leaseMs: LEASE_MS } }));
    const play = (name: string, deed: Deed) => stage.act(scheduler, { name, deed, job });
    const acting = play(own, the(OWN, own).deed);
    const rescuing = Array.from({ length: rescuers }, async () => {
      const presumed = await play('presume', presume);
      return { presumed, settled: presumed.landed ? await play('settle', settle) : null };
    });
    const besides = others.map((name) => play(name, the(OTHERS, name)));
    // Settled, not only all: nobody may be left on a connection when one of them throws.
    await scheduler.waitFor(Promise.allSettled([acting, ...rescuing, ...besides]));
    const [acted, rescues, rest] = await Promise.all([acting, Promise.all(rescuing), Promise.all(besides)]);

    const presumptions = rescues.map(({ presumed }) => presumed);
    count(tally, acted, presumptions);
    const landed = [acted, ...presumptions].filter((each) => each.landed);
    expect(landed.length, 'deeds that landed').toBeLessThanOrEqual(1);
    const beaten = rest[others.indexOf('beat')];
    for (const each of presumptions)
      if (beaten !== undefined && beaten.doneAt < each.wroteAt) expect(each.landed, 'a rescue after a beat').toBe(false);
    if (!presumptions.some((each) => each.landed)) expect(acted.landed, 'deeds that landed').toBe(true);
    const isSettled = rescues.some(({ settled }) => settled?.landed === true);
    const path = acted.landed ? the(OWN, own).path : isSettled ? RESCUED : 'started';
    await checkPath(ledger, job, { path, asked: others.includes('ask') });
  });
}

function count(tally: LateTally, acted: Acted, presumptions: readonly Acted[]): void {
  tally[acted.landed ? 'own' : 'rescues']++;
  const met = (a: Acted, b: Acted) => a.wroteAt < b.committedAt && b.committedAt < a.answeredAt;
  if (presumptions.some((each) => met(acted, each) || met(each, acted))) tally.overlaps++;
}

/**
 * The history is that of the deed which landed, and no attempt started twice. A request to cancel ends a job that would wait for
 * another worker; one that runs or has ended keeps the request or leaves it behind.
 */
async function checkPath(ledger: TestLedger, job: AbandonedJob, { path, asked }: { path: string; asked: boolean }) {
  const events = (await ledger.eventsOf(job)).slice(1);
  const reasons = events.map((event) => event.reason).join(' ');
  const found = await ledger.stateOf(job);
  const allowed = asked && path !== 'started succeeded' && path !== 'started' ? CANCELLED[path] : [path];
  expect(allowed, 'the way that the job went').toContain(reasons);
  expect(asked && found === 'scheduled', 'a job in line that somebody asked to cancel').toBe(false);
  const attempts = events.filter((event) => event.to_state === 'running').map((event) => event.attempt);
  expect(new Set(attempts).size, 'attempts that started once').toBe(attempts.length);
  const ends = events.filter((event) => isTerminal(event.to_state));
  expect(ends.length, 'ends in the history').toBe(isTerminal(found) ? 1 : 0);
}

/** Where a request to cancel leads: it meets the job before the deed, or finds it in line again. */
const CANCELLED: Record<string, string[]> = {
  '': ['cancelled'],
  [RESCUED]: ['started cancelled', `${RESCUED} cancelled`],
};
