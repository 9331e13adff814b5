import type pg from 'pg';
import { MAX_CHILDREN } from '../../core/dependencies.ts';
import { AppError } from '../../core/errors.ts';
import { LeaseLostError } from '../../core/failure.ts';
import type { NewJob } from '../../core/submission.ts';
import { OwnedTransaction } from '../../ledger/driver/owned-transaction.ts';
import { lockParent, type Origin } from '../../ledger/jobs/guard-parent.ts';
import type { JobToWrite } from '../../ledger/jobs/job-to-write.ts';
import { joinChild } from '../../ledger/jobs/join-child.ts';
import { submitJobs, type Written } from '../../ledger/jobs/submit-jobs.ts';
import type { SpawnRequest } from '../work/handler-context.ts';
import type { RunningAttempt } from '../work/running-attempt.ts';
import type { JobWriter } from './job-writer.ts';
import { type ParentLease, placeChild } from './placement.ts';
import type { SubmissionRequest } from './prepared.ts';

/** A child to write. */
export type Spawned = { entry: JobToWrite; inheritsPriority: boolean };
export type SpawnResult = { kind: 'written'; written: Written } | { kind: 'lost' } | { kind: 'transaction_ended' };

export type AdmitChild = (child: JobToWrite) => Promise<void>;

export type SpawnerOptions = {
  writer: JobWriter;
  prepare(request: SubmissionRequest): Promise<JobToWrite>;
  admit?: AdmitChild;
};

export type SpawnParams = SpawnRequest & { attempt: RunningAttempt; workerId: number };

/** Writes children of running jobs, fenced by the lease of the parent. */
export class Spawner {
  readonly #options: SpawnerOptions;

  constructor(options: SpawnerOptions) {
    this.#options = options;
  }

  /** Returns the id of the child, or null if the transaction that the child was to be written in has ended. */
  async spawn({ attempt, submission, join, transaction, workerId }: SpawnParams): Promise<string | null> {
    const { job } = attempt;
    // The derived key of a governed child includes the project.
    const inProject = submission?.category == null ? submission : { ...submission, projectId: submission.projectId ?? job.projectId };
    const entry = await this.#options.prepare({ orgId: job.orgId, submission: inProject, actor: `system:job ${job.id}` });
    await this.#options.admit?.(entry);
    const lease = { orgId: job.orgId, seq: job.seq, leaseSeq: job.leaseSeq, workerId, join };
    const result = await this.write(lease, { entry, inheritsPriority: submission.priority == null }, transaction);
    if (result.kind === 'transaction_ended') return null;
    if (result.kind === 'lost') throw new LeaseLostError();
    if (join !== null) attempt.joinsChildren = true;
    const { written } = result;
    if (written.kind === 'accepted') return written.id;
    if (written.kind === 'duplicate' && !written.sameRequest) throw new AppError('DUPLICATE');
    return written.existingId;
  }

  /** With a transaction, the child is written in it and exists when it commits. */
  async write(parent: ParentLease, spawned: Spawned, transaction: OwnedTransaction | null = null): Promise<SpawnResult> {
    const { entry } = spawned;
    const { writer } = this.#options;
    const result =
      transaction === null
        ? await writer.transact(entry.orgId, (client) => spawnIn(client, parent, spawned))
        : await transaction.inTurn(() => spawnIn(transaction, parent, spawned));
    if (result.kind === 'written') writer.reportAccepted([result.written], [entry], transaction ?? undefined);
    return result;
  }
}

async function spawnIn(client: pg.ClientBase | OwnedTransaction, parent: ParentLease, spawned: Spawned): Promise<SpawnResult> {
  const own = client instanceof OwnedTransaction ? client : null;
  const guard = await lockParent(client, parent, own?.id ?? null);
  if (!guard.landed) return { kind: guard.transactionEnded ? 'transaction_ended' : 'lost' };
  const write = async (): Promise<SpawnResult> => {
    const { entry, inheritsPriority } = spawned;
    entry.job = inherit(entry.job, guard.origin);
    await placeChild(client, entry, { ...guard, parent, inheritsPriority });
    const [child] = await submitJobs(client, [entry]);
    // The error undoes the write. A repeated spawn writes no child and does not count.
    if (child?.kind === 'accepted' && guard.children >= MAX_CHILDREN) throw tooManyChildren();
    await joinIn(client, parent, child as Written);
    return { kind: 'written', written: child as Written };
  };
  return own === null ? write() : own.withSavepoint(write);
}

async function joinIn(client: pg.ClientBase | OwnedTransaction, parent: ParentLease, child: Written): Promise<void> {
  const isNew = child.kind === 'accepted';
  if (parent.join === null || (isNew && parent.join === 'settled') || (child.kind === 'duplicate' && !child.sameRequest)) return;
  const leaseSeq = parent.join === 'all' ? parent.leaseSeq : null;
  await joinChild(client, { orgId: parent.orgId, id: isNew ? child.id : child.existingId, parentSeq: parent.seq, leaseSeq });
}

/** A child belongs to the request, the project and the trace of its parent. */
function inherit(job: NewJob, origin: Origin): NewJob {
  const { envelope } = job;
  return {
    ...job,
    correlationId: job.correlationId ?? origin.correlationId,
    envelope: {
      category: envelope?.category ?? null,
      projectId: envelope?.projectId ?? origin.projectId,
      traceparent: envelope?.traceparent ?? origin.traceparent,
      requestId: origin.requestId,
    },
  };
}

function tooManyChildren(): AppError {
  const message = `An attempt may spawn at most ${MAX_CHILDREN} jobs. Split the work among several jobs.`;
  return new AppError('INVALID_REQUEST', {
    message,
    details: [{ field: 'spawn', code: 'TOO_MANY_CHILDREN', message }],
  });
}
