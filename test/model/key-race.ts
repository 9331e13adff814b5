/** Submissions with one unique key against claims and grants, and granters of one limit against each other. */
import fc from 'fast-check';
import { expect } from 'vitest';
import type { Submission } from '../../src/core/submission.ts';
import { ON_CONFLICT, UNIQUE_UNTIL } from '../../src/core/unique.ts';
import { claimAndStart } from '../../src/ledger/attempts/claim-and-start.ts';
import { completeJobs } from '../../src/ledger/attempts/complete-jobs.ts';
import type { Queryable } from '../../src/ledger/driver/statement.ts';
import { cancelJobs } from '../../src/ledger/jobs/cancel-jobs.ts';
import type { JobToWrite } from '../../src/ledger/jobs/job-to-write.ts';
import { submitJobs, type Written } from '../../src/ledger/jobs/submit-jobs.ts';
import { grantLimited } from '../../src/ledger/upkeep/grant-limited.ts';
import { prepareSubmission } from '../../src/services/jobs/prepare-submission.ts';
import { submitParts } from '../engine/submit-parts.ts';
import type { TestLedger } from '../ledger/fixture.ts';
import { type AbandonedJob, type Acted, Stage } from './race.ts';
import { rangesOf } from './system.ts';

const LIMIT = { key: 'l', concurrency: 1 };

/** How the races went, to see that they were races. */
export type KeyTally = { moved: number; waited: number; skipped: number };

const ruleOf = fc.record({
  key: fc.constant('k'),
  until: fc.constantFrom(...UNIQUE_UNTIL),
  onConflict: fc.constantFrom(...ON_CONFLICT),
});

/** An org with a worker, on whose jobs actors meet. */
class Scene {
  readonly ledger: TestLedger;
  readonly #intake: ReturnType<typeof submitParts>['intake'];
  readonly #stage: Stage;
  readonly #scheduler: fc.Scheduler;
  orgId = '';
  workerId = 0;
  #claimNo = 0;

  constructor(ledger: TestLedger, stage: Stage, scheduler: fc.Scheduler) {
    this.ledger = ledger;
    this.#intake = submitParts(ledger).intake;
    this.#stage = stage;
    this.#scheduler = scheduler;
  }

  /** Its own, so that a claim finds no jobs of earlier races. */
  get type(): string {
    return `raced-${this.orgId}`;
  }

  async open(): Promise<this> {
    const { api } = this.ledger.db;
    this.orgId = await this.ledger.newOrg();
    this.workerId = await this.ledger.registerWorker();
    await api.query('UPDATE millrace.workers SET types = $2 WHERE id = $1', [this.workerId, [this.type]]);
    return this;
  }

  async prepare(more: Partial<Submission>): Promise<JobToWrite> {
    const submission = { type: this.type, payload: {}, ...more };
    const prepared = await prepareSubmission(this.#intake, { orgId: this.orgId, submission, actor: null });
    if (!prepared.ok) throw new Error(JSON.stringify(prepared.issues));
    return prepared.entry;
  }

  act(name: string, deed: (db: Queryable) => Promise<unknown>): Promise<Acted> {
    const job = {} as AbandonedJob;
    const landed = async (db: Queryable) => {
      await deed(db);
      return true;
    };
    return this.#stage.act(this.#scheduler, { name, deed: landed, job });
  }

  claim(db: Queryable) {
    return claimAndStart(db, { workerId: this.workerId, ranges: rangesOf([this.type]), limit: 1, claimNo: ++this.#claimNo });
  }

  async rows(): Promise<{ id: string; seq: number; state: string; worker_id: number | null; payload: unknown }[]> {
    const text = 'SELECT id, seq, state, worker_id, payload FROM millrace.jobs WHERE org_id = $1 ORDER BY seq';
    return (await this.ledger.db.api.query(text, [this.orgId])).rows;
  }
}

const staged = (ledger: TestLedger) => {
  const stage = new Stage(ledger, (db) => db);
  return { stage, scheduler: fc.scheduler({ act: (release) => release().then(() => stage.untilQuiet()) }) };
};

/** Its statement waited for a lock, and others went on meanwhile. */
const hasWaited = ({ wroteAt, answeredAt }: Acted): boolean => answeredAt > wroteAt + 1;

const LIVE = new Set(['scheduled', 'running']);

export function uniqueRaceProperty(ledger: TestLedger, tally: KeyTally) {
  const { stage, scheduler: schedules } = staged(ledger);
  const rules = fc.array(ruleOf, { minLength: 1, maxLength: 3 });
  return fc.asyncProperty(schedules, rules, fc.boolean(), async (scheduler, drawn, isLimited) => {
    const scene = await new Scene(ledger, stage, scheduler).open();
    const limit = isLimited ? { limit: LIMIT } : {};
    const [first] = await submitJobs(ledger.db.api, [await scene.prepare({ payload: { version: -1 }, unique: { key: 'k' }, ...limit })]);
    const entries = await Promise.all(drawn.map((unique, version) => scene.prepare({ payload: { version }, unique, ...limit })));
    const written: Written[] = [];
    let taken: string[] = [];
    const submitting = entries.map((entry, index) =>
      scene.act(`submit ${index}`, async (db) => {
        written[index] = (await submitJobs(db, [entry]))[0] as Written;
      }),
    );
    const moving = scene.act(isLimited ? 'grant' : 'claim', async (db) => {
      if (isLimited) await grantLimited(db, [entries[0]?.limitId as number], 1);
      else taken = (await scene.claim(db)).jobs.map(({ id }) => id);
    });
    await scheduler.waitFor(Promise.allSettled([...submitting, moving]));
    const [submits, moved] = [await Promise.all(submitting), await moving];

    tally.moved += taken.length;
    tally.waited += submits.filter(hasWaited).length;
    tally.skipped += written.filter(({ kind }) => kind === 'skipped').length;
    expect(hasWaited(moved), 'a claim that waited for a submission').toBe(false);
    const rows = await scene.rows();
    const waiting = rows.filter(({ state, worker_id }) => state === 'scheduled' && worker_id === null);
    expect(waiting.length, 'jobs with the key that wait').toBeLessThanOrEqual(1);
    for (const [index, each] of written.entries()) {
      const { doneAt } = submits[index] as Acted;
      if (each.kind !== 'skipped' || drawn[index]?.until !== 'started' || !taken.includes(each.existingId)) continue;
      expect(moved.wroteAt, 'a start after the commit of what was skipped').toBeGreaterThan(doneAt);
    }
    const last = submits.reduce((latest, each, index) => (each.committedAt > (submits[latest] as Acted).committedAt ? index : latest), 0);
    if (written[last]?.kind !== 'skipped') {
      const live = rows.filter(({ state }) => LIVE.has(state)).map(({ payload }) => payload);
      expect(live, 'the payload of the last commit').toContainEqual({ version: last });
    }
    expect(rows.some(({ id }) => first?.kind === 'accepted' && id === first.id)).toBe(true);
  });
}

/** One job of the limit runs, two wait. It ends, one of the others is cancelled, and two granters look at the limit. */
export function limitRaceProperty(ledger: TestLedger, tally: { granted: number; early: number }) {
  const { stage, scheduler: schedules } = staged(ledger);
  const besides = fc.subarray(['end', 'cancel', 'claim'] as const);
  return fc.asyncProperty(schedules, besides, async (scheduler, drawn) => {
    const scene = await new Scene(ledger, stage, scheduler).open();
    const entries = await Promise.all([0, 1, 2].map((version) => scene.prepare({ payload: { version }, limit: LIMIT })));
    const limitId = entries[0]?.limitId as number;
    const grant = (db: Queryable) => grantLimited(db, [limitId], 10);
    await submitJobs(ledger.db.api, entries);
    await grant(ledger.db.api);
    const [running] = (await scene.claim(ledger.db.api)).jobs;
    if (running === undefined) throw new Error('the first job was not granted');
    const { orgId, workerId } = scene;
    const deeds = {
      end: (db: Queryable) => completeJobs(db, { workerId, finished: [{ ...running, result: null }], closedClaims: [] }),
      cancel: (db: Queryable) =>
        cancelJobs(db, { orgId, projectId: null, ids: [entries[1]?.id as string], reason: null, actor: null, force: false }),
      claim: (db: Queryable) => scene.claim(db),
    };
    const acting = [...drawn.map((name) => scene.act(name, deeds[name])), scene.act('grant', grant), scene.act('grant again', grant)];
    await scheduler.waitFor(Promise.allSettled(acting));
    await Promise.all(acting);

    const inRun = async () => {
      const text = 'SELECT seq FROM millrace.limited WHERE org_id = $1';
      const waits = new Set((await ledger.db.api.query(text, [orgId])).rows.map(({ seq }) => seq));
      return (await scene.rows()).filter(({ state, seq }) => LIVE.has(state) && !waits.has(seq)).length;
    };
    expect(await inRun(), 'jobs of the limit that run or may start').toBeLessThanOrEqual(1);
    tally[(await inRun()) === 1 && drawn.includes('end') ? 'granted' : 'early']++;
    await grant(ledger.db.api);
    expect(await inRun(), 'jobs after the next look').toBe(1);
  });
}
