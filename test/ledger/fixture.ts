/** A ledger of its own for each test file, and factories that bring a job to any state through the real operations. */

import { randomBytes, randomUUID } from 'node:crypto';
import { afterAll, beforeAll } from 'vitest';
import type { DependencyType } from '../../src/core/dependencies.ts';
import { type Policy, PROFILES } from '../../src/core/policy.ts';
import type { JobState } from '../../src/core/states.ts';
import { DEFAULT_LIMITS, type NewJob, normalizeSubmission } from '../../src/core/submission.ts';
import type { Reason } from '../../src/core/transitions.ts';
import { claimAndStart, type StartedJob } from '../../src/ledger/attempts/claim-and-start.ts';
import { claimJobs } from '../../src/ledger/attempts/claim-jobs.ts';
import { type SettledJob, settleJobs } from '../../src/ledger/attempts/settle-jobs.ts';
import { BEAT } from '../../src/ledger/attempts/watch-workers.ts';
import { replaceClock } from '../../src/ledger/driver/clock.ts';
import { type Database, inTransaction, openDatabase } from '../../src/ledger/driver/database.ts';
import type { Queryable } from '../../src/ledger/driver/statement.ts';
import { projectRollups } from '../../src/ledger/history/rollups.ts';
import { cancelJobs } from '../../src/ledger/jobs/cancel-jobs.ts';
import { PolicyCache } from '../../src/ledger/jobs/intern-policies.ts';
import type { JobToWrite, Placement } from '../../src/ledger/jobs/job-to-write.ts';
import { lockDependencies } from '../../src/ledger/jobs/lock-dependencies.ts';
import { submitJobs } from '../../src/ledger/jobs/submit-jobs.ts';
import { type Pruned, pruneJobs } from '../../src/ledger/upkeep/prune.ts';
import { until } from '../until.ts';
import { auditAll } from './audit-all.ts';
import { makePatient } from './patient.ts';
import { migratedDatabase, type TestDatabase } from './test-database.ts';

export type TestJob = { orgId: string; projectId: string | null; id: string; seq: number; jobType: string };
export type LeasedTestJob = TestJob & { leaseSeq: number; workerId: number };

type Ending = Pick<SettledJob, 'to' | 'reason'> & Partial<SettledJob>;

export type SubmitOverrides = {
  orgId?: string;
  /** Its own type unless told, so that a claim finds this job alone. */
  type?: string;
  job?: Partial<NewJob>;
  policy?: Partial<Policy>;
  actor?: string;
  placement?: Partial<Placement>;
  /** Born pending, waiting for these. */
  dependsOn?: readonly TestJob[];
  dependencyType?: DependencyType;
};

export type JobRow = Record<string, unknown> & { state: JobState; event_count: number };
export type EventRow = Record<string, unknown> & {
  n: number;
  from_state: JobState | null;
  to_state: JobState;
  reason: Reason;
};

/** Call once at the top of a test file. */
export function useLedger(): TestLedger {
  const ledger = new TestLedger();
  beforeAll(() => ledger.open());
  afterAll(() => ledger.close());
  return ledger;
}

export class TestLedger {
  db!: Database;
  policies!: PolicyCache;
  #database: TestDatabase | null = null;
  #movedMs = 0;
  #claimNo = 0;

  async open(): Promise<void> {
    this.#database = await migratedDatabase();
    this.db = openDatabase({ url: this.#database.url });
    makePatient(this.db);
    this.policies = new PolicyCache(this.db.api);
  }

  async close(): Promise<void> {
    await this.db?.close();
    this.#database?.drop();
  }

  async newOrg(): Promise<string> {
    const id = randomUUID();
    await this.db.api.query('INSERT INTO millrace.orgs (id, slug) VALUES ($1, $2)', [id, `org-${id.slice(0, 13)}`]);
    return id;
  }

  /** Moves the ledger's clock on (or back) for everyone in this database. */
  async moveClock(ms: number): Promise<void> {
    this.#movedMs += ms;
    await replaceClock(this.db.api, (now) => `${now} + interval '${this.#movedMs} milliseconds'`);
  }

  async registerWorker(name = 'worker'): Promise<number> {
    const { rows } = await this.db.api.query(
      `INSERT INTO millrace.workers (name, host, pid, types, queues, slots, started_at, beat_at, beat_ms)
       VALUES ($1, 'host-1', 4711, '{}', '{q:default}', 8, millrace.clock(), millrace.clock(), 50) RETURNING id`,
      [name],
    );
    return rows[0].id;
  }

  beat(workerId: number): Promise<unknown> {
    return this.db.api.query('UPDATE millrace.workers SET beat_at = millrace.clock() WHERE id = $1', [workerId]);
  }

  /** The newest beat of a worker, as a rescuer sees it; null when there is no such worker. */
  async beatOf(workerId: number): Promise<number | null> {
    const { rows } = await this.db.api.query(`SELECT ${BEAT} AS beat FROM millrace.workers w WHERE id = $1`, [workerId]);
    return rows[0]?.beat ?? null;
  }

  /** Adds up all of the history; transactions in other databases of the server hold it back, too. */
  async project(): Promise<void> {
    const left = `SELECT EXISTS (SELECT FROM millrace.records
      WHERE txid >= (SELECT txid FROM millrace.projections WHERE name = 'rollups')) AS "isLeft"`;
    await until('the history has been added up', async () => {
      const { isLeft } = (await this.db.api.query(left)).rows[0];
      if (isLeft) await projectRollups(this.db.maintenance);
      return !isLeft;
    });
    await auditAll(this.db);
  }

  /** Removes what has outlived its retention. Nothing goes before it was added up. */
  async prune(limit = 1_000): Promise<Pruned> {
    await this.project();
    return pruneJobs(this.db.maintenance, limit);
  }

  /** Jobs of one new org and type that one statement made ready: they wait as few runs. */
  async submitLine(count: number): Promise<{ orgId: string; type: string; ids: string[] }> {
    const orgId = await this.newOrg();
    const type = `type-${orgId}`;
    const entries: JobToWrite[] = [];
    for (let n = 0; n < count; n++) entries.push(await this.toWrite(orgId, { type }));
    await submitJobs(this.db.api, entries);
    return { orgId, type, ids: entries.map(({ id }) => id) };
  }

  submitOne(overrides: SubmitOverrides = {}): Promise<TestJob> {
    return inTransaction(this.db.api, (client) => this.submitOneOn(client, overrides));
  }

  /** In a transaction of the caller's. */
  async submitOneOn(client: Queryable, overrides: SubmitOverrides = {}): Promise<TestJob> {
    const orgId = overrides.orgId ?? (await this.newOrg());
    const entry = await this.toWrite(orgId, overrides);
    const ids = (overrides.dependsOn ?? []).map((job) => job.id);
    const dependencies = ids.length === 0 ? [] : await lockDependencies(client, { orgId, ids });
    await submitJobs(client, [{ ...entry, placement: placementOf(entry, dependencies, overrides) }]);
    const { rows } = await client.query({ text: 'SELECT seq FROM millrace.jobs WHERE id = $1', values: [entry.id] });
    return { orgId, projectId: null, id: entry.id, seq: Number(rows[0].seq), jobType: entry.job.type };
  }

  /** A checked job, ready for `submitJobs`. */
  async toWrite(orgId: string, overrides: SubmitOverrides = {}): Promise<JobToWrite> {
    const type = overrides.type ?? `type-${randomBytes(6).toString('hex')}`;
    const normalized = normalizeSubmission(
      { type, payload: {} },
      { nowMs: Date.now(), limits: DEFAULT_LIMITS, profile: { ...PROFILES.gopherqueue, ...overrides.policy } },
    );
    if (!normalized.ok) throw new Error(JSON.stringify(normalized.issues));
    const dependencyType = overrides.dependencyType ?? normalized.job.dependencyType;
    const job: NewJob = { ...normalized.job, dependencyType, ...overrides.job };
    const policyId = await this.policies.idOf(job.policy);
    return { id: randomUUID(), orgId, job, policyId, actor: overrides.actor ?? null, placement: null };
  }

  /** Claims and starts the job; its type must be its own. */
  async start(job: TestJob, workerId?: number): Promise<LeasedTestJob & { started: StartedJob }> {
    const worker = workerId ?? (await this.registerWorker());
    const taken = await claimAndStart(this.db.workers, {
      workerId: worker,
      ranges: rangesOf(job),
      limit: 1,
      claimNo: ++this.#claimNo,
    });
    const [first] = taken.jobs;
    if (first === undefined) throw new Error(`job ${job.seq} could not be started`);
    return { ...job, leaseSeq: first.leaseSeq, workerId: worker, started: first };
  }

  /** Leases the job without starting it. */
  async lease(job: TestJob, workerId?: number): Promise<LeasedTestJob> {
    const worker = workerId ?? (await this.registerWorker());
    const asked = { workerId: worker, ranges: rangesOf(job), limit: 1, claimNo: ++this.#claimNo };
    const [claimed] = (await claimJobs(this.db.workers, asked)).jobs;
    if (claimed === undefined) throw new Error(`job ${job.seq} could not be claimed`);
    return { ...job, leaseSeq: claimed.leaseSeq, workerId: worker };
  }

  /** Ends the running attempt of a job as its worker would. */
  async settle(job: LeasedTestJob, outcome: Ending): Promise<boolean> {
    const { landed } = await settleJobs(this.db.workers, {
      workerId: job.workerId,
      jobs: [settled(job, outcome)],
      by: 'lease',
      closedClaims: [],
    });
    return landed.has(job.leaseSeq);
  }

  /** A job in the state asked for, brought there as a real one would be. */
  async putJob(state: JobState, overrides: SubmitOverrides = {}): Promise<TestJob> {
    if (state === 'pending') {
      const dependency = await this.submitOne({ orgId: overrides.orgId ?? (await this.newOrg()) });
      return this.submitOne({ ...overrides, orgId: dependency.orgId, dependsOn: [dependency] });
    }
    if (state === 'delayed') return this.submitOne({ ...overrides, job: { runAfterMs: 60_000, ...overrides.job } });
    const job = await this.submitOne(overrides);
    if (state === 'scheduled') return job;
    if (state === 'cancelled') {
      await cancelJobs(this.db.api, { projectId: null, orgId: job.orgId, ids: [job.id], reason: null, actor: null, force: false });
      return job;
    }
    const running = await this.start(job);
    if (state !== 'running') await this.settle(running, OUTCOMES[state]);
    return running;
  }

  async rowOf(job: { orgId: string; id: string }): Promise<JobRow> {
    const text = 'SELECT * FROM millrace.jobs WHERE org_id = $1 AND id = $2';
    return (await this.db.api.query(text, [job.orgId, job.id])).rows[0];
  }

  async stateOf(job: { orgId: string; id: string }): Promise<JobState> {
    return (await this.rowOf(job)).state;
  }

  async eventsOf(job: { orgId: string; seq: number }): Promise<EventRow[]> {
    const { rows } = await this.db.api.query('SELECT * FROM millrace.events WHERE org_id = $1 AND job_seq = $2 ORDER BY n', [
      job.orgId,
      job.seq,
    ]);
    return rows;
  }

  /** Resolves when a statement in this database waits for a lock. */
  async untilBlocked(count = 1): Promise<void> {
    const text = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`;
    const blocked = async () => (await this.db.maintenance.query(text)).rowCount ?? 0;
    await until(`${count} statements wait for a lock`, blocked, (seen) => seen >= count);
  }

  /** The history as text: `scheduled>running:started`. */
  async pathOf(job: { orgId: string; seq: number }): Promise<string[]> {
    const events = await this.eventsOf(job);
    return events.map((event) => `${event.from_state ?? ''}>${event.to_state}:${event.reason}`);
  }

  async tokensOf(job: { orgId: string; seq: number }, table: 'ready' | 'timers' | 'waiting' | 'releases'): Promise<number> {
    const source = table === 'ready' ? 'ready_jobs' : table;
    const text = `SELECT count(*)::int4 AS count FROM millrace.${source} WHERE org_id = $1 AND seq = $2`;
    return (await this.db.api.query(text, [job.orgId, job.seq])).rows[0].count;
  }
}

const FAILURE = JSON.stringify({ category: 'TEMPORARY', code: 'BOOM', message: 'it broke' });

const OUTCOMES = {
  completed: { to: 'completed', reason: 'succeeded', result: '{"ok":true}' },
  failed: { to: 'failed', reason: 'permanent_failure', failure: FAILURE },
  dead_letter: { to: 'dead_letter', reason: 'attempts_exhausted', failure: FAILURE },
  retrying: { to: 'retrying', reason: 'temporary_failure', failure: FAILURE, delayMs: 60_000 },
} as const satisfies Partial<Record<JobState, Ending>>;

/** A settlement with everything left out that does not matter. */
export function settled(job: Pick<LeasedTestJob, 'orgId' | 'seq' | 'leaseSeq'>, outcome: Ending): SettledJob {
  const nothing = {
    delayMs: null,
    failure: null,
    result: null,
    resultBytes: null,
    holds: false,
    refundsAttempt: false,
  };
  return { orgId: job.orgId, seq: job.seq, leaseSeq: job.leaseSeq, ...nothing, ...outcome };
}

export const rangesOf = (job: { jobType: string }) =>
  [0, 1, 2, 3, 4].map((priority) => ({ queue: 'q:default', jobType: job.jobType, priority, floor: 0 }));

function placementOf(
  entry: JobToWrite,
  dependencies: readonly { seq: number; depth: number }[],
  overrides: SubmitOverrides,
): Placement | null {
  if (dependencies.length === 0 && overrides.placement === undefined) return null;
  return {
    priority: entry.job.priority,
    depth: Math.max(0, ...dependencies.map((dependency) => dependency.depth + 1)),
    parentSeq: null,
    joinsParent: false,
    dependsOnSeqs: dependencies.map((dependency) => dependency.seq),
    waits: dependencies.length > 0,
    ...overrides.placement,
  };
}
