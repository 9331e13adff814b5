/** What callers do: submit, cancel, retry. */

import fc from 'fast-check';
import { expect } from 'vitest';
import { DEPENDENCY_TYPES } from '../../src/core/dependencies.ts';
import type { LimitSubmission } from '../../src/core/limit.ts';
import { priorityName } from '../../src/core/priority.ts';
import type { Submission } from '../../src/core/submission.ts';
import { cancelJobs } from '../../src/ledger/jobs/cancel-jobs.ts';
import type { JobToWrite } from '../../src/ledger/jobs/job-to-write.ts';
import { retryJob } from '../../src/ledger/jobs/retry-jobs.ts';
import { prepareSubmission } from '../../src/services/jobs/prepare-submission.ts';
import { anyOf, commandOf, hasJobs, hasLeases, leaseChoice, pick, pickLease } from './command.ts';
import type { Submitted } from './model.ts';
import { type ModelJob, type ModelLimit, mayRun, runsBy } from './model-job.ts';
import { type System, TYPES } from './system.ts';

export const typeOf = fc.constantFrom(...TYPES);
export const priorityOf = fc.constantFrom(0, 2, 2, 4);
export const delayOf = fc.constantFrom(0, 0, 1_000, 30_000);

export type Wanted = {
  type: string;
  priority: number;
  delayMs: number;
  payload: unknown;
  unique?: Submission['unique'];
  limit?: ModelLimit;
};
type Ties = Pick<Submitted, 'dependsOn' | 'dependencyType' | 'parent'> & { key?: string };

export const UNTIED: Ties = { dependsOn: [], dependencyType: 'AFTER', parent: null };

/** The same submission for both sides. */
export async function prepare(system: System, wanted: Wanted, ties: Ties): Promise<{ entry: JobToWrite; submitted: Submitted }> {
  const submission: Submission = {
    type: wanted.type,
    payload: wanted.payload,
    priority: priorityName(wanted.priority),
    ...(wanted.delayMs === 0 ? {} : { delay: `${wanted.delayMs}ms` as const }),
    idempotencyKey: ties.key ?? null,
    dependsOn: ties.dependsOn.map((job) => job.id),
    dependencyType: ties.dependencyType,
    ...(wanted.unique == null ? {} : { unique: wanted.unique }),
    ...(wanted.limit === undefined ? {} : { limit: limitOf(wanted.limit) }),
  };
  const prepared = await prepareSubmission(system.intake, { orgId: system.orgId, submission, actor: null });
  if (!prepared.ok) throw new Error(JSON.stringify(prepared.issues));
  const { entry } = prepared;
  const { policy, fingerprint } = entry.job;
  const { unique: _, limit = null, ...same } = wanted;
  const { key = null, ...others } = ties;
  if (limit !== null && entry.limitId !== undefined) system.limitIds.set(limit, entry.limitId);
  return { entry, submitted: { ...same, id: entry.id, policy, key, fingerprint, limit, ...others } };
}

const limitOf = ({ key, concurrency, rate }: ModelLimit): LimitSubmission => ({
  ...{ key, concurrency },
  ...(rate === null ? {} : { rate: rate.count, per: `${rate.perMs}ms` }),
});

export const submitPlain = commandOf({
  name: 'submit',
  given: fc.record({ type: typeOf, priority: priorityOf, delayMs: delayOf }),
  run: async (given, model, system) => {
    const { entry, submitted } = await prepare(system, { ...given, payload: {} }, UNTIED);
    const [written] = await system.writer.write([entry]);
    expect(written).toMatchObject(model.submit(submitted));
  },
});

/** Few keys and few payloads, so that repeats of the same and of another request are common. */
export const submitKeyed = commandOf({
  name: 'submitKeyed',
  given: fc.record({
    type: typeOf,
    key: fc.constantFrom('a', 'b'),
    payload: fc.constantFrom({ a: 1 }, { a: 1 }, { a: 2 }),
    delayMs: delayOf,
  }),
  run: async ({ key, ...given }, model, system) => {
    const { entry, submitted } = await prepare(system, { ...given, priority: 2 }, { ...UNTIED, key });
    const [written] = await system.writer.writeTogether([entry]);
    expect(written).toMatchObject(model.submit(submitted));
  },
});

export const submitDependent = commandOf({
  name: 'submitDependent',
  given: fc.record({
    type: typeOf,
    priority: priorityOf,
    delayMs: delayOf,
    dependencyType: fc.constantFrom(...DEPENDENCY_TYPES),
    choices: fc.array(anyOf, { minLength: 1, maxLength: 3 }),
  }),
  isPossible: hasJobs,
  run: async ({ choices, dependencyType, ...given }, model, system) => {
    const dependsOn = [...new Set(choices.map((choice) => pick<ModelJob>(model.jobs, choice)))];
    const ties = { dependsOn, dependencyType, parent: null };
    const { entry, submitted } = await prepare(system, { ...given, payload: {} }, ties);
    const [written] = await system.writer.writeTogether([entry]);
    expect(written).toMatchObject(model.submit(submitted));
  },
});

/** A running attempt spawns a job that its completion waits for; a zombie spawns nothing. */
export const spawn = commandOf({
  name: 'spawn',
  given: fc.record({ type: typeOf, lease: leaseChoice }),
  isPossible: hasLeases,
  run: async (given, model, system) => {
    const lease = pickLease(model, given.lease);
    if (lease === null) return;
    const wanted = { type: given.type, priority: 2, delayMs: 0, payload: {} };
    const { entry, submitted } = await prepare(system, wanted, { ...UNTIED, parent: lease.job });
    const { seq, leaseSeq, workerId } = lease;
    const answer = await system.spawner.write(
      { orgId: system.orgId, seq, leaseSeq, workerId, join: 'settled' },
      { entry, inheritsPriority: false },
    );
    if (runsBy(lease)) expect(answer).toMatchObject({ kind: 'written', written: model.submit(submitted) });
    else expect(answer, 'a spawn by a lost lease').toEqual({ kind: 'lost' });
  },
});

/** Every other time of a job that may run, where there is one: that is a request, like that of a running job. */
export const cancel = commandOf({
  name: 'cancel',
  given: fc.record({ choice: anyOf, force: fc.boolean() }),
  isPossible: hasJobs,
  run: async ({ choice, force }, model, system) => {
    const ahead = model.jobs.filter(mayRun);
    const job = pick(ahead.length > 0 && choice % 2 === 0 ? ahead : model.jobs, choice);
    const previousState = job.state;
    const params = { orgId: system.orgId, projectId: null, ids: [job.id], reason: 'no longer needed', actor: 'user:1', force };
    const answers = await cancelJobs(system.ledger.db.api, params);
    const kind = model.cancel(job, force);
    expect(answers).toMatchObject([{ id: job.id, kind, previousState }]);
    expect(answers[0]?.moved?.to).toBe(kind === 'cancelled' ? job.state : undefined);
  },
});

export const retry = commandOf({
  name: 'retry',
  given: fc.record({
    choice: anyOf,
    resets: fc.boolean(),
    delayMs: delayOf,
    priority: fc.constantFrom(null, 0, 4),
  }),
  isPossible: hasJobs,
  run: async ({ choice, resets, delayMs, priority }, model, system) => {
    const failed = model.jobs.filter((job) => job.state === 'failed' || job.state === 'dead_letter');
    const job = pick(failed.length === 0 || choice % 8 === 0 ? model.jobs : failed, choice);
    const { orgId, ledger } = system;
    const params = { orgId, projectId: null, id: job.id, resetAttempts: resets, priority, delayMs, actor: null };
    const answer = await retryJob(ledger.db.api, params);
    const isQueued = model.retry(job, { resets, delayMs, priority });
    expect(answer).toMatchObject({ kind: isQueued ? 'queued' : 'not_retriable', state: job.state });
  },
});
