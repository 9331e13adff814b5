/** The real side of a model run: a ledger whose clock stands still, one org, some workers and what they remember. */

import { expect } from 'vitest';
import type { PolicyLayer } from '../../src/core/policy.ts';
import type { JobWriter } from '../../src/engine/submit/job-writer.ts';
import { Spawner } from '../../src/engine/submit/spawner.ts';
import { Claims } from '../../src/engine/work/claims.ts';
import type { ReadyRange } from '../../src/ledger/attempts/claim-and-start.ts';
import { registerWorker } from '../../src/ledger/attempts/workers.ts';
import { replaceClock } from '../../src/ledger/driver/clock.ts';
import type { Queryable } from '../../src/ledger/driver/statement.ts';
import type { Intake } from '../../src/services/jobs/prepare-submission.ts';
import { submitParts } from '../engine/submit-parts.ts';
import type { TestLedger } from '../ledger/fixture.ts';
import { Model } from './model.ts';
import { type GivenLease, isHeldBy, type ModelLimit } from './model-job.ts';

const SECOND = 1_000;
const HOUR = 3_600 * SECOND;

/** Five ways of living: with short leases, patient without an end, back at once, failed with its worker, and never tried twice. */
const LIVES: Record<string, PolicyLayer> = {
  short: {
    maxAttempts: 3,
    leaseMs: 60 * SECOND,
    lifetimeMs: 6 * HOUR,
    keyWindowMs: HOUR,
    backoff: { strategy: 'CONSTANT', initialDelayMs: 5 * SECOND, jitter: false },
  },
  patient: { maxAttempts: 4, leaseMs: 600 * SECOND, lifetimeMs: null, backoff: { strategy: 'EXPONENTIAL' } },
  brisk: {
    maxAttempts: 2,
    leaseMs: 60 * SECOND,
    lifetimeMs: 2 * HOUR,
    backoff: { strategy: 'CONSTANT', initialDelayMs: 0, maxDelayMs: 0 },
  },
  fragile: { maxAttempts: 2, leaseMs: 60 * SECOND, lifetimeMs: 3 * HOUR, onOrphan: 'fail' },
  once: { maxAttempts: 1, leaseMs: 60 * SECOND, lifetimeMs: HOUR, autoRetry: false, onOrphan: 'fail' },
};

export const TYPES = Object.keys(LIVES);

const WORKER = { host: 'host-1', pid: 4711, types: TYPES, queues: ['q:default'], slots: 8 };
const TABLES = `jobs ready timers waiting claims cancel_requests dependencies releases idempotency_keys records progress
  checkpoints workers limited limit_grants unique_keys`;

/** Without foreign keys and triggers, so that the order of the tables does not matter. A TRUNCATE of few rows takes 20 times as long. */
const EMPTY = `BEGIN; SET LOCAL session_replication_role = replica;
  ${TABLES.split(/\s+/)
    .map((table) => `DELETE FROM millrace.${table};`)
    .join(' ')} COMMIT`;

/** Makes the ledger's clock stand still. Nothing here crashes, so commits need not wait for the disk. */
export async function stopClock(ledger: TestLedger): Promise<void> {
  const { api } = ledger.db;
  const { rows } = await api.query('SELECT current_database() AS name');
  await api.query(`ALTER DATABASE ${rows[0].name} SET synchronous_commit = off; SET synchronous_commit = off`);
  await api.query('CREATE TABLE public.stopped_clock AS SELECT pg_catalog.now() AS at');
  await replaceClock(api, () => 'at FROM public.stopped_clock');
}

/** Where workers' statements go, so that a test can spoil one on its way. */
export type Wire = (db: Queryable) => Queryable;

export class System {
  readonly ledger: TestLedger;
  readonly orgId: string;
  readonly workers: Queryable;
  readonly writer: JobWriter;
  readonly intake: Intake;
  readonly spawner: Spawner;
  /** The numbers of the limits that jobs were submitted with. */
  readonly limitIds = new Map<ModelLimit, number>();
  readonly #claims = new Map<number, Claims>();

  constructor(ledger: TestLedger, orgId: string, wire: Wire = (db) => db) {
    this.ledger = ledger;
    this.orgId = orgId;
    this.workers = wire(ledger.db.workers);
    const { writer, intake } = submitParts(ledger, { registrationOf: (type) => LIVES[type] });
    this.writer = writer;
    // As governed jobs, all jobs become poison when they fail permanently again after a manual retry.
    this.intake = { ...intake, profile: { ...intake.profile, poisonAfter: 2 } };
    this.spawner = new Spawner({ writer, prepare: () => Promise.reject(new Error('the model prepares by itself')) });
  }

  async setClock(nowMs: number): Promise<void> {
    await this.ledger.db.api.query('UPDATE public.stopped_clock SET at = $1', [new Date(nowMs)]);
  }

  async addWorker(model: Model): Promise<void> {
    const id = await registerWorker(this.workers, { ...WORKER, name: `worker-${model.workers.size}` });
    this.#claims.set(id, new Claims());
    model.workers.set(id, { beatAtMs: model.nowMs, isStopped: false });
  }

  claimsOf(workerId: number): Claims {
    const claims = this.#claims.get(workerId);
    if (claims === undefined) throw new Error(`worker ${workerId} was never registered`);
    return claims;
  }

  /** After an answer about this lease: the worker is done with it if it is over, by its own doing or another's. */
  letGo(lease: GivenLease): void {
    if (!isHeldBy(lease)) this.claimsOf(lease.workerId).done(lease.claimNo, lease.leaseSeq);
  }

  /** Tells the model what a claim gave, after a look that it gave what stood first in line, under leases never seen. */
  receive(
    model: Model,
    claim: { workerId: number; claimNo: number; expected: string[]; given: Given[]; how?: 'apart' | 'ahead' },
  ): GivenLease[] {
    const { workerId, claimNo, expected, given, how } = claim;
    expect(given.map((each) => each.id).toSorted(), 'jobs that were claimed').toEqual(expected.toSorted());
    const newest = Math.max(0, ...model.leases.map((lease) => lease.leaseSeq));
    for (const { leaseSeq } of given) expect(leaseSeq, 'a new lease').toBeGreaterThan(newest);
    expect(new Set(given.map((each) => each.leaseSeq)).size, 'distinct leases').toBe(given.length);
    if (given.length > 0) this.claimsOf(workerId).open(claimNo, given);
    return given.map(({ id, seq, leaseSeq }) => {
      const job = model.jobs.find((each) => each.id === id);
      if (job === undefined) throw new Error(`the model knows no job ${id}`);
      const lease = { job, seq, leaseSeq, workerId, claimNo };
      model.give(lease, how);
      return lease;
    });
  }
}

type Given = { orgId: string; id: string; seq: number; leaseSeq: number };

/** Every range of these types, from its beginning. */
export const rangesOf = (types: readonly string[]): ReadyRange[] =>
  types.flatMap((jobType) => [0, 1, 2, 3, 4].map((priority) => ({ queue: 'q:default', jobType, priority, floor: 0 })));

const WORKERS = 3;
const BEGINNING_MS = Date.UTC(2030, 0, 1);

/** An empty ledger with an org of its own, and the model of it. */
export async function begin(ledger: TestLedger, wire?: Wire): Promise<{ model: Model; real: System }> {
  await ledger.db.api.query(EMPTY);
  const model = new Model(BEGINNING_MS);
  const real = new System(ledger, await ledger.newOrg(), wire);
  await real.setClock(model.nowMs);
  for (let count = 0; count < WORKERS; count++) await real.addWorker(model);
  return { model, real };
}
