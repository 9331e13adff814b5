import { type AppError, invalidRequest, isAppError } from '../../core/errors.ts';
import { maskSecrets } from '../../core/mask-secrets.ts';
import type { Submission } from '../../core/submission.ts';
import type { Engine } from '../../engine/engine.ts';
import { recordActions } from '../../ledger/audit/record-action.ts';
import { asBestEffort } from '../../ledger/driver/best-effort-step.ts';
import { requireTransaction } from '../../ledger/driver/require-transaction.ts';
import type { Queryable } from '../../ledger/driver/statement.ts';
import type { SubmissionResult } from './submission-result.ts';
import { submitJob } from './submit-job.ts';

/** A notification that could not be enqueued. The transaction of the caller goes on without it. */
export type LostNotification = {
  /** There is no job. */
  jobId: null;
  /** Tells it from the results with a job. */
  status: 'LOST';
  /** Why it was lost. */
  error: unknown;
};

export type BestEffortParams = { orgId: string; submission: Submission; client?: Queryable };

const ACTOR = 'system:millrace';
const MAX_MESSAGE = 1_000;

/**
 * Enqueues a notification so that its failure does not fail the caller's write. In the caller's transaction it works under a savepoint. A
 * loss is reported as an event and recorded for the audit trail on another connection, so it is kept even if the caller rolls back. Throws
 * only if the call itself is wrong: another category, or a client that is not inside a transaction.
 */
export async function enqueueBestEffort(engine: Engine, params: BestEffortParams): Promise<SubmissionResult | LostNotification> {
  const { orgId, client } = params;
  const submission = asNotification(params.submission);
  if (client !== undefined) await requireTransaction(client);
  const submit = () => submitJob(engine, { orgId, submission, actor: null, client });
  try {
    return await (client === undefined ? submit() : asBestEffort(client, submit));
  } catch (error) {
    await reportLoss(engine, { orgId, type: submission.type, error });
    return { jobId: null, status: 'LOST', error };
  }
}

function asNotification(submission: Submission): Submission {
  const { category = 'notification' } = submission ?? {};
  if (category === 'notification') return { ...submission, category };
  throw notANotification();
}

function notANotification(): AppError {
  const message = 'category must be notification: submit() accepts jobs of other categories, and reports its failures';
  return invalidRequest({ field: 'category', code: 'INVALID_VALUE', message });
}

type Loss = { orgId: string; type: unknown; error: unknown };

async function reportLoss({ events, database }: Engine, { orgId, type: given, error }: Loss): Promise<void> {
  const type = typeof given === 'string' ? given.slice(0, 100) : '';
  const message = maskSecrets((error instanceof Error ? error.message : String(error)).slice(0, MAX_MESSAGE));
  events.emit('notificationLost', { orgId, type, message, error });
  const code = isAppError(error) ? error.code : 'INTERNAL_ERROR';
  const requester = { actor: ACTOR, requestId: null };
  const action = { orgId, event: 'notification.lost', requester, jobType: type, details: { code, message } };
  await recordActions(database.api, [action]).catch((cause) =>
    events.emit('error', { error: cause, where: 'audit of a lost notification' }),
  );
}
