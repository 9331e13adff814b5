import type pg from 'pg';
import { AppError } from '../../core/errors.ts';
import type { AuditAction, Requester } from '../../core/governance/audit-action.ts';
import type { DeadLetterStatus, DeadLetterTerms } from '../../core/governance/dead-letter.ts';
import type { Owner } from '../../core/owner.ts';
import { priorityName } from '../../core/priority.ts';
import type { Submission } from '../../core/submission.ts';
import { recordActions } from '../../ledger/audit/record-action.ts';
import {
  type DeadJob,
  discardEntry,
  type LockedEntry,
  lockEntry,
  readDeadJob,
  reopenEntry,
  replaceDeadJob,
} from '../../ledger/dead-letters/resolve-entry.ts';
import { onTransactionEnd } from '../../ledger/driver/transaction-end.ts';
import type { JobToWrite } from '../../ledger/jobs/job-to-write.ts';
import { retryJob } from '../../ledger/jobs/retry-jobs.ts';
import type { Written } from '../../ledger/jobs/submit-jobs.ts';
import type { MovedJob } from '../../ledger/moved-jobs.ts';
import type { Prepared, SubmissionRequest } from '../submit/prepared.ts';
import { type Correction, correctPayload } from './correct-payload.ts';

export type DeskParts = {
  readonly terms: DeadLetterTerms;
  readonly maxPayloadBytes: number;
  prepare(request: SubmissionRequest): Prepared | Promise<Prepared>;
  write(entry: JobToWrite, client: pg.PoolClient): Promise<Written[]>;
  /** Wakes workers, or the stager. */
  onRetried(state: 'scheduled' | 'delayed'): void;
};

/** One action on one entry. */
export type DeskRequest = Owner & {
  readonly jobId: string;
  readonly requester: Requester;
  /** The operation that asks. Its actions do not wait for a job that another transaction holds. */
  readonly operationId?: string;
  /** Where an operation gathers what it has to write for the audit trail, in one statement for many jobs. */
  readonly actions?: AuditAction[];
};

/** `refused`: the action is not possible for this entry, and the message says why. */
export type Refusal =
  | { readonly kind: 'not_found' }
  | { readonly kind: 'held' }
  | { readonly kind: 'not_open'; readonly status: DeadLetterStatus }
  | { readonly kind: 'refused'; readonly error: AppError };

export type Replayed = { readonly kind: 'replayed'; readonly state: 'scheduled' | 'delayed'; readonly moved: MovedJob } | Refusal;
export type Discarded = { readonly kind: 'discarded'; readonly undoUntil: Date } | Refusal;
export type Restored = { readonly kind: 'restored' | 'too_late' } | Refusal;
export type FixedForward = { readonly kind: 'fixed'; readonly jobId: string } | Refusal;

type Open = { readonly kind: 'open'; readonly entry: LockedEntry };

/** Acts on entries of the dead letter, each in a transaction of the caller, and writes the action for the audit trail. */
export class DeadLetterDesk {
  readonly #parts: DeskParts;

  constructor(parts: DeskParts) {
    this.#parts = parts;
  }

  /** Runs the same job again, with fresh attempts. */
  async replay(client: pg.PoolClient, request: DeskRequest): Promise<Replayed> {
    const open = await this.#open(client, request);
    if (open.kind !== 'open') return open;
    const { orgId, projectId, jobId, requester } = request;
    const how = { resetAttempts: true, priority: null, delayMs: null, actor: requester.actor };
    const retried = await retryJob(client, { orgId, projectId, id: jobId, ...how });
    if (retried.kind !== 'queued') return refused('The job cannot run again: its policy allows no more attempts.');
    await record(client, request, actionOf('deadletter.replayed', open.entry, request));
    onTransactionEnd(client, () => this.#parts.onRetried(retried.state));
    return { kind: 'replayed', state: retried.state, moved: retried.moved };
  }

  /** Closes an entry without running its job. */
  async discard(client: pg.PoolClient, request: DeskRequest): Promise<Discarded> {
    const open = await this.#open(client, request);
    if (open.kind !== 'open') return open;
    const { requester, operationId = null } = request;
    const { undoWindowMs } = this.#parts.terms;
    const undoUntil = await discardEntry(client, { ...open.entry, actor: requester.actor, undoWindowMs, operationId });
    await record(client, request, actionOf('deadletter.discarded', open.entry, request, { undo_until: undoUntil.toISOString() }));
    return { kind: 'discarded', undoUntil };
  }

  /** Undoes a discard. */
  async restore(client: pg.PoolClient, request: DeskRequest): Promise<Restored> {
    const locked = await lockEntry(client, request, request.jobId);
    if (locked.kind !== 'locked') return { kind: locked.kind };
    const { entry } = locked;
    if (entry.status !== 'discarded') return { kind: 'not_open', status: entry.status };
    if (!entry.mayRestore) return { kind: 'too_late' };
    await reopenEntry(client, entry);
    await record(client, request, actionOf('deadletter.restored', entry, request));
    return { kind: 'restored' };
  }

  /** Submits a new job with a corrected payload in the place of the dead one. */
  async fixForward(client: pg.PoolClient, request: DeskRequest & { correction: Correction }): Promise<FixedForward> {
    const open = await this.#open(client, request);
    if (open.kind !== 'open') return open;
    const { orgId, requester, correction, jobId } = request;
    const old = await readDeadJob(client, open.entry);
    if (old === null) return refused('The job was removed, so that its payload is not known.');
    const corrected = correctPayload(old, correction, this.#parts.maxPayloadBytes);
    if (!corrected.ok)
      return {
        kind: 'refused',
        error: new AppError('INVALID_REQUEST', {
          message: corrected.message,
          details: [{ field: 'patch', code: 'PATCH_DOES_NOT_FIT', message: corrected.message }],
        }),
      };
    const terms = requester.requestId === null ? {} : { requestId: requester.requestId };
    const submission = submissionOf(open.entry, old, corrected.payload);
    const prepared = await this.#parts.prepare({ orgId, submission, actor: requester.actor, terms });
    if (!prepared.ok)
      return {
        kind: 'refused',
        error: new AppError('INVALID_REQUEST', { message: prepared.issues[0]?.message, details: prepared.issues }),
      };
    const job: JobToWrite = { ...prepared.entry, policyId: old.policyId, job: { ...prepared.entry.job, policy: old.policy } };
    const [written] = await this.#parts.write(job, client);
    if (written?.kind !== 'accepted') return refused('A job with the same key exists already, so that the corrected one was not accepted.');
    await replaceDeadJob(client, { ...open.entry, jobId, actor: requester.actor, newJobId: written.id });
    await record(client, request, actionOf('deadletter.fixed_forward', open.entry, request, { new_job_id: written.id }));
    return { kind: 'fixed', jobId: written.id };
  }

  async #open(client: pg.PoolClient, request: DeskRequest): Promise<Open | Refusal> {
    const locked = await lockEntry(client, request, request.jobId, { waits: request.operationId === undefined });
    if (locked.kind !== 'locked') return { kind: locked.kind };
    const { entry } = locked;
    if (entry.status !== 'open') return { kind: 'not_open', status: entry.status };
    return entry.hasJob ? { kind: 'open', entry } : refused('The job was removed when its retention ended.');
  }
}

async function record(client: pg.PoolClient, { actions }: DeskRequest, action: AuditAction): Promise<void> {
  if (actions === undefined) await recordActions(client, [action]);
  else actions.push(action);
}

const refused = (message: string): Refusal => ({ kind: 'refused', error: new AppError('CONFLICT', { message }) });

function actionOf(
  event: string,
  entry: LockedEntry,
  { orgId, jobId, requester, operationId }: DeskRequest,
  details: object = {},
): AuditAction {
  const { projectId, type: jobType, attempts: attempt, fingerprint } = entry;
  const all = { fingerprint, ...(operationId === undefined ? {} : { operation_id: operationId }), ...details };
  return { orgId, projectId, event, requester, jobId, jobType, attempt, details: all };
}

/** The new job has everything in common with the old one but its payload. Its policy is set afterwards. */
function submissionOf(entry: LockedEntry, old: DeadJob, payload: unknown): Submission {
  const { limit } = old;
  const numbers = limit === null ? null : { concurrency: limit.concurrency ?? undefined, rate: limit.rate ?? undefined };
  const shared = {
    type: entry.type,
    payload,
    queue: entry.originQueue,
    priority: priorityName(old.priority),
    category: entry.category,
    projectId: entry.projectId,
    tags: old.tags ?? undefined,
    correlationId: old.correlationId,
    callbackUrl: old.callbackUrl ?? undefined,
    traceparent: old.traceparent ?? undefined,
    ...(limit === null
      ? {}
      : { limit: { key: limit.key, ...numbers, ...(limit.perMs === null ? {} : { per: `PT${limit.perMs / 1_000}S` }) } }),
  };
  return shared as unknown as Submission;
}
