/** The end of an attempt against its rescue: each actor has a connection and a transaction of its own. */
import fc from 'fast-check';
import type pg from 'pg';
import { expect } from 'vitest';
import { isTerminal, type JobState } from '../../src/core/states.ts';
import { completeJobs } from '../../src/ledger/attempts/complete-jobs.ts';
import { reportProgress } from '../../src/ledger/attempts/fenced-writes.ts';
import { heartbeat } from '../../src/ledger/attempts/heartbeat.ts';
import { type SettledJob, settleJobs } from '../../src/ledger/attempts/settle-jobs.ts';
import { settleOrphans } from '../../src/ledger/attempts/settle-orphans.ts';
import { isContended, type Queryable } from '../../src/ledger/driver/statement.ts';
import { cancelJobs } from '../../src/ledger/jobs/cancel-jobs.ts';
import { type LeasedTestJob, settled, type TestLedger } from '../ledger/fixture.ts';
import type { Wire } from './system.ts';

export const LEASE_MS = 60_000;

type Ending = Pick<SettledJob, 'to' | 'reason'> & Partial<SettledJob>;
export type AbandonedJob = LeasedTestJob & { beat: number | null };
export type Deed = (db: Queryable, job: AbandonedJob) => Promise<boolean>;

export const settleBy =
  (by: 'lease' | 'dead_worker', ending: Ending): Deed =>
  async (db, job) => {
    const params = { workerId: job.workerId, jobs: [settled(job, ending)] };
    if (by === 'dead_worker') {
      const { landed } = await settleOrphans(db, { ...params, beat: job.beat });
      return landed.has(job.leaseSeq);
    }
    const { landed, held } = await settleJobs(db, { ...params, by, closedClaims: [] });
    if (!held.has(job.leaseSeq)) return landed.has(job.leaseSeq);
    // A worker tries again later what another transaction holds; here it waits for that transaction.
    const waited = await settleJobs(db, { ...params, by: 'handler', closedClaims: [] });
    return waited.landed.has(job.leaseSeq);
  };

const finish: Deed = async (db, { orgId, seq, leaseSeq, workerId }) => {
  const finished = [{ orgId, seq, leaseSeq, result: null }];
  const { landed } = await completeJobs(db, { workerId, finished, closedClaims: [] });
  return landed.has(leaseSeq);
};

const beat: Deed = async (db, job) => (await heartbeat(db, { workerId: job.workerId, jobs: [job] })).alive;

/** A report does not wait for a row that another actor holds: it writes nothing, and a handler would try again. */
const report: Deed = async (db, { orgId, seq, leaseSeq }) => {
  await db.query({ text: 'SAVEPOINT report' });
  try {
    return (await reportProgress(db, { orgId, seq, leaseSeq, percent: 50, message: null })).landed;
  } catch (error) {
    if (!isContended(error)) throw error;
    await db.query({ text: 'ROLLBACK TO SAVEPOINT report' });
    return false;
  }
};

const ask: Deed = async (db, { orgId, id }) => {
  await cancelJobs(db, { projectId: null, orgId, ids: [id], reason: null, actor: null, force: true });
  return true;
};

const FAILURE = JSON.stringify({ category: 'TEMPORARY', code: 'BOOM', message: 'it broke' });

/** How the worker may end its attempt, and where that leads. */
const OWN: Record<string, { deed: Deed; state: JobState }> = {
  finish: { deed: finish, state: 'completed' },
  complete: { deed: settleBy('lease', { to: 'completed', reason: 'succeeded' }), state: 'completed' },
  fail: { deed: settleBy('lease', { to: 'failed', reason: 'permanent_failure', failure: FAILURE }), state: 'failed' },
  retry: {
    deed: settleBy('lease', { to: 'retrying', reason: 'temporary_failure', delayMs: 9_000 }),
    state: 'retrying',
  },
};

const RESCUES: Record<string, { deed: Deed; state: JobState }> = {
  requeue: { deed: settleBy('dead_worker', { to: 'retrying', reason: 'worker_lost', delayMs: 0 }), state: 'scheduled' },
  giveUp: { deed: settleBy('dead_worker', { to: 'dead_letter', reason: 'attempts_exhausted' }), state: 'dead_letter' },
  cancel: { deed: settleBy('dead_worker', { to: 'cancelled', reason: 'cancelled' }), state: 'cancelled' },
};

export const OTHERS: Record<string, Deed> = { beat, report, ask };

/** A member that is there because the name was drawn from the record's own keys. */
export const the = <T>(record: Record<string, T>, name: string): T => record[name] as T;

/** When each of an actor's steps began or ended, in steps counted over all actors. */
export type Acted = { landed: boolean; wroteAt: number; answeredAt: number; committedAt: number; doneAt: number };

/** Where actors meet. A step ends when its statement is answered or waits for a lock; only then comes the next. */
export class Stage {
  readonly #ledger: TestLedger;
  readonly #wire: Wire;
  readonly #underWay = new Set<number>();
  /** The sessions of all actors. */
  readonly #actors = new Set<number>();
  #steps = 0;

  constructor(ledger: TestLedger, wire: Wire) {
    this.#ledger = ledger;
    this.#wire = wire;
  }

  /** BEGIN, the deed and COMMIT, each when the scheduler says so. */
  async act(scheduler: fc.Scheduler, { name, deed, job }: { name: string; deed: Deed; job: AbandonedJob }): Promise<Acted> {
    const client = (await this.#ledger.db.workers.connect()) as pg.PoolClient & { processID: number };
    this.#actors.add(client.processID);
    const step = async <T>(what: string, run: () => Promise<T>) => {
      await scheduler.schedule(Promise.resolve(), `${name} ${what}`);
      const beganAt = ++this.#steps;
      this.#underWay.add(client.processID);
      const answer = await run().finally(() => this.#underWay.delete(client.processID));
      return { answer, beganAt, endedAt: ++this.#steps };
    };
    try {
      await step('begins', () => client.query('BEGIN'));
      const { answer: landed, beganAt: wroteAt, endedAt: answeredAt } = await step('writes', () => deed(this.#wire(client), job));
      const { beganAt: committedAt, endedAt: doneAt } = await step('commits', () => client.query('COMMIT'));
      return { landed, wroteAt, answeredAt, committedAt, doneAt };
    } catch (error) {
      await client.query('ROLLBACK');
      throw error;
    } finally {
      client.release();
    }
  }

  /** A lock of the server's own, for a vacuum or a new page, is over soon. Only one of another actor is waited for here. */
  async untilQuiet(): Promise<void> {
    const text = 'SELECT count(*)::int4 AS blocked FROM unnest($1::int4[]) pid WHERE pg_blocking_pids(pid) && $2::int4[]';
    for (;;) {
      await new Promise(setImmediate);
      const pids = [...this.#underWay];
      if (pids.length === 0) return;
      const { rows } = await this.#ledger.db.maintenance.query(text, [pids, [...this.#actors]]);
      if (rows[0].blocked === this.#underWay.size && pids.length === this.#underWay.size) return;
    }
  }
}

/** A running job whose worker has been silent for longer than its lease. */
const abandonedJob = async (ledger: TestLedger): Promise<AbandonedJob> =>
  abandoned(ledger, await ledger.start(await ledger.submitOne({ policy: { leaseMs: LEASE_MS } })));

/** The worker of the job falls silent. */
export async function abandoned(ledger: TestLedger, job: LeasedTestJob): Promise<AbandonedJob> {
  const text = `UPDATE millrace.workers SET beat_at = millrace.clock() - interval '${LEASE_MS + 1} ms' WHERE id = $1`;
  await ledger.db.api.query(text, [job.workerId]);
  return { ...job, beat: await ledger.beatOf(job.workerId) };
}

const drawn = fc.record({
  own: fc.constantFrom(...Object.keys(OWN)),
  rescue: fc.constantFrom(...Object.keys(RESCUES)),
  others: fc.subarray(Object.keys(OTHERS)),
  rescuers: fc.integer({ min: 1, max: 2 }),
});

/** How the races went, to see that they were races. */
export type Tally = { ends: number; rescues: number; overlaps: number };

export function raceProperty(ledger: TestLedger, tally: Tally, wire: Wire = (db) => db) {
  const stage = new Stage(ledger, wire);
  const act = (release: () => Promise<unknown>) => release().then(() => stage.untilQuiet());
  return fc.asyncProperty(fc.scheduler({ act }), drawn, async (scheduler, { own, rescue, others, rescuers }) => {
    const job = await abandonedJob(ledger);
    const play = (name: string, deed: Deed) => stage.act(scheduler, { name, deed, job });
    const ending = play(own, the(OWN, own).deed);
    const rescuing = Array.from({ length: rescuers }, () => play(rescue, the(RESCUES, rescue).deed));
    const besides = others.map((name) => play(name, the(OTHERS, name)));
    // Settled, not only all: nobody may be left on a connection when one of them throws.
    await scheduler.waitFor(Promise.allSettled([ending, ...rescuing, ...besides]));
    const [end, rescues, rest] = await Promise.all([ending, Promise.all(rescuing), Promise.all(besides)]);

    count(tally, end, rescues);
    expect(
      [end, ...rescues].filter((acted) => acted.landed),
      'deeds that landed',
    ).toHaveLength(1);
    const state = end.landed ? the(OWN, own).state : the(RESCUES, rescue).state;
    await checkState(ledger, job, { state, asked: others.includes('ask') });
    const beaten = rest[others.indexOf('beat')];
    for (const each of rescues) {
      if (beaten !== undefined && beaten.doneAt < each.wroteAt) expect(each.landed, 'a rescue after a beat').toBe(false);
    }
  });
}

function count(tally: Tally, end: Acted, rescues: readonly Acted[]): void {
  tally[end.landed ? 'ends' : 'rescues']++;
  const met = (a: Acted, b: Acted) => a.wroteAt < b.committedAt && b.committedAt < a.answeredAt;
  if (rescues.some((each) => met(end, each) || met(each, end))) tally.overlaps++;
}

/** Whoever landed decided the state. A cancel that was asked for, whenever that was, ends what would live on. */
async function checkState(ledger: TestLedger, job: LeasedTestJob, { state, asked }: { state: JobState; asked: boolean }) {
  const found = await ledger.stateOf(job);
  expect(found, 'the state it is in').toBe(asked && !isTerminal(state) ? 'cancelled' : state);
  const ends = (await ledger.eventsOf(job)).filter((event) => isTerminal(event.to_state));
  expect(ends.length, 'ends in the history').toBe(isTerminal(found) ? 1 : 0);
}
