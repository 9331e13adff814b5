import { AppError } from '../../core/errors.ts';
import { wholeOrg } from '../../core/owner.ts';
import type { Engine } from '../../engine/engine.ts';
import type { SubmissionRequest } from '../../engine/submit/prepared.ts';
import { requireTransaction } from '../../ledger/driver/require-transaction.ts';
import type { Queryable } from '../../ledger/driver/statement.ts';
import { findKey, keyScopeOf } from '../../ledger/jobs/idempotency-keys.ts';
import type { JobToWrite } from '../../ledger/jobs/job-to-write.ts';
import { touchKeys } from '../../ledger/jobs/key-records.ts';
import type { Written } from '../../ledger/jobs/submit-jobs.ts';
import { getJob } from '../../ledger/reads/get-job.ts';
import type { Admission } from '../admission/admission.ts';
import { throughQueues } from '../admission/queue-intake.ts';
import { bytesOf } from '../admission/stored-limit.ts';
import { prepareSubmission } from './prepare-submission.ts';
import { acceptedResult, conflictingSubmission, invalidSubmission, type SubmissionResult, withDerivedKey } from './submission-result.ts';

export type SubmitJobParams = SubmissionRequest & {
  /** A client inside the caller's transaction. The job exists once that commits. No limit applies. */
  client?: Queryable;
  /** The limit of the door. */
  admission?: Admission;
  /** False for a job that does not enter the queue now. */
  needsRoom?: boolean;
};

/** Accepts one job. A repeated request returns the job of the first one. A different request with the same key is refused. */
export async function submitJob(engine: Engine, params: SubmitJobParams): Promise<SubmissionResult> {
  const { orgId, client } = params;
  if (client !== undefined) await requireTransaction(client);
  const preparing = prepareSubmission(engine, params);
  const prepared = preparing instanceof Promise ? await preparing : preparing;
  if (!prepared.ok) throw invalidSubmission(prepared.issues);
  const written = await enter(engine, prepared.entry, params);
  const result = written.kind === 'accepted' ? acceptedResult(written) : await resultOf(engine, { orgId, written, client });
  return withDerivedKey(result, prepared.entry);
}

/** The queue may refuse the job, whatever room there is. */
function enter(engine: Engine, entry: JobToWrite, params: SubmitJobParams): Promise<Written> {
  const { client, admission } = params;
  const intake = { orgId: entry.orgId, entries: [entry], depths: client === undefined ? admission?.depths : undefined };
  return throughQueues(engine, intake, (refused) => {
    const refusal = refused.get(entry);
    if (refusal === undefined) return admit(engine, entry, params);
    throw admission?.refusedByQueue(refusal) ?? refusal;
  });
}

function admit(engine: Engine, entry: JobToWrite, params: SubmitJobParams): Promise<Written> {
  const { client: own, admission, needsRoom = true } = params;
  if (own !== undefined || admission === undefined) return write(engine, entry, own);
  const jobs = needsRoom ? 1 : 0;
  const load = { orgId: entry.orgId, jobs, least: jobs, bytes: bytesOf(entry) };
  const written = admission.admit((place) => write(engine, entry, place?.client), load);
  if (entry.job.idempotencyKey === null) return written;
  return written.catch((error) => repeatOf(engine, entry, { error, admission }));
}

async function write(engine: Engine, entry: JobToWrite, client?: Queryable): Promise<Written> {
  if (client === undefined) return engine.submitter.accept(entry);
  const [written] = await engine.writer.writeTogether([entry], client);
  return written as Written;
}

type Refusal = { error: unknown; admission: Admission };

/** A repeat needs no room: even when the queue is full, it returns the job that it repeats. */
async function repeatOf(engine: Engine, { orgId, job }: JobToWrite, { error, admission }: Refusal): Promise<Written> {
  if (!admission.isFull(error)) throw error;
  const key = { scope: keyScopeOf(job), key: job.idempotencyKey as string };
  const found = await findKey(engine.database.api, orgId, key);
  if (found === null) throw error;
  await touchKeys(engine.database.api, orgId, [key]);
  return { kind: 'duplicate', existingId: found.jobId, sameRequest: found.fingerprint === job.fingerprint };
}

export async function resultOf(
  engine: Engine,
  { orgId, written, client }: { orgId: string; written: Written; client?: Queryable },
): Promise<SubmissionResult> {
  if (written.kind === 'accepted') return acceptedResult(written);
  const { existingId } = written;
  if (written.kind === 'duplicate' && !written.sameRequest) throw conflictingSubmission(existingId);
  const job =
    client === undefined ? await engine.reader.get(wholeOrg(orgId), existingId) : await getJob(client, wholeOrg(orgId), existingId);
  if (job === null)
    throw new AppError('NOT_FOUND', {
      message: `Job ${existingId}, which used the ${written.kind === 'duplicate' ? 'idempotency' : 'unique'} key, no longer exists.`,
    });
  const { state, createdAt, scheduledFor } = job;
  return { jobId: existingId, status: STATUSES[written.kind], existingJobId: existingId, state, createdAt, scheduledFor };
}

const STATUSES = { duplicate: 'DUPLICATE', skipped: 'SKIPPED', updated: 'UPDATED' } as const;
