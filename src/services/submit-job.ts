import type pg from 'pg';
import { AppError } from '../core/errors.ts';
import type { Submission } from '../core/submission.ts';
import type { Engine } from '../engine/engine.ts';
import type { SubmitOptions } from '../engine/submitter.ts';
import { getJob } from '../ledger/get-job.ts';
import type { Written } from '../ledger/submit-jobs.ts';
import {
  acceptedResult,
  conflictingSubmission,
  invalidSubmission,
  type SubmissionResult,
} from './submission-result.ts';

export type SubmitJobParams = {
  orgId: string;
  submission: Submission;
  actor: string | null;
  /** A client inside the caller's own transaction: the job exists exactly when that commits. */
  client?: pg.ClientBase;
  options?: SubmitOptions;
};

/** Accepts one job. A repeat of the same request answers with the first one's job; another request with its key is refused. */
export async function submitJob(engine: Engine, params: SubmitJobParams): Promise<SubmissionResult> {
  const { orgId, submission, actor, client, options } = params;
  if (client === undefined) {
    const submitted = await engine.submitter.submit(orgId, submission, actor, options);
    if (submitted.kind === 'invalid') throw invalidSubmission(submitted.issues);
    return submitted.kind === 'accepted' ? acceptedResult(submitted) : resultOf(engine, { orgId, written: submitted });
  }
  const prepared = await engine.submitter.prepare(orgId, submission, actor, options);
  if (!prepared.ok) throw invalidSubmission(prepared.issues);
  const [written] = await engine.submitter.writePlaced([prepared.entry], client);
  engine.hintLater();
  return resultOf(engine, { orgId, written: written as Written, client });
}

export async function resultOf(
  engine: Engine,
  { orgId, written, client }: { orgId: string; written: Written; client?: pg.ClientBase },
): Promise<SubmissionResult> {
  if (written.kind === 'accepted') return acceptedResult(written);
  const { existingId, sameRequest } = written;
  if (!sameRequest) throw conflictingSubmission(existingId);
  const job = await getJob(client ?? engine.database.api, orgId, existingId);
  if (job === null)
    throw new AppError('NOT_FOUND', { message: `Job ${existingId}, which holds the idempotency key, is gone.` });
  const { state, createdAt, scheduledFor } = job;
  return { jobId: existingId, status: 'DUPLICATE', existingJobId: existingId, state, createdAt, scheduledFor };
}
