import type pg from 'pg';
import { AppError } from '../../core/errors.ts';
import type { Submission } from '../../core/submission.ts';
import type { Engine } from '../../engine/engine.ts';
import type { SubmitOptions } from '../../engine/submit/submitter.ts';
import { requireTransaction } from '../../ledger/driver/require-transaction.ts';
import { findKey } from '../../ledger/jobs/find-key.ts';
import type { JobToWrite } from '../../ledger/jobs/job-to-write.ts';
import { keyScopeOf } from '../../ledger/jobs/key-scope.ts';
import type { Written } from '../../ledger/jobs/submit-jobs.ts';
import { getJob } from '../../ledger/reads/get-job.ts';
import type { Admission } from '../admission/admission.ts';
import { isQueueFull } from '../admission/queue-admission.ts';
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
  /** Where whoever asks may fill the queue only so far; in the caller's own transaction nothing is limited. */
  admission?: Admission;
};

/** Accepts one job. A repeat of the same request answers with the first one's job; another request with its key is refused. */
export async function submitJob(engine: Engine, params: SubmitJobParams): Promise<SubmissionResult> {
  const { orgId, submission, actor, client, options, admission } = params;
  if (client !== undefined) await requireTransaction(client);
  const preparing = engine.submitter.prepare(orgId, submission, actor, options);
  const prepared = preparing instanceof Promise ? await preparing : preparing;
  if (!prepared.ok) throw invalidSubmission(prepared.issues);
  const { entry } = prepared;
  const limit = client === undefined ? admission : undefined;
  const written = await (limit === undefined ? write(engine, entry, client) : admit(engine, entry, limit));
  return written.kind === 'accepted' ? acceptedResult(written) : resultOf(engine, { orgId, written, client });
}

async function write(engine: Engine, entry: JobToWrite, client?: pg.ClientBase): Promise<Written> {
  if (client === undefined) return engine.submitter.accept(entry);
  const [written] = await engine.submitter.writePlaced([entry], client);
  engine.hintLater();
  return written as Written;
}

/** A repeat adds nothing to the queue: full or not, it is answered with the job it repeats. */
function admit(engine: Engine, entry: JobToWrite, admission: Admission): Promise<Written> {
  const written = admission.admit((client) => write(engine, entry, client));
  const { idempotencyKey: key, fingerprint } = entry.job;
  if (key === null) return written;
  return written.catch(async (error) => {
    if (!isQueueFull(error)) throw error;
    const found = await findKey(engine.database.api, entry.orgId, { scope: keyScopeOf(entry.job), key });
    if (found === null) throw error;
    return { kind: 'duplicate', existingId: found.jobId, sameRequest: found.fingerprint === fingerprint };
  });
}

export async function resultOf(
  engine: Engine,
  { orgId, written, client }: { orgId: string; written: Written; client?: pg.ClientBase },
): Promise<SubmissionResult> {
  if (written.kind === 'accepted') return acceptedResult(written);
  const { existingId, sameRequest } = written;
  if (!sameRequest) throw conflictingSubmission(existingId);
  const job =
    client === undefined ? await engine.reader.get(orgId, existingId) : await getJob(client, orgId, existingId);
  if (job === null)
    throw new AppError('NOT_FOUND', { message: `Job ${existingId}, which holds the idempotency key, is gone.` });
  const { state, createdAt, scheduledFor } = job;
  return { jobId: existingId, status: 'DUPLICATE', existingJobId: existingId, state, createdAt, scheduledFor };
}
