import type pg from 'pg';
import type { IngestLogLine } from '../../core/ingest/log-line.ts';
import { priorityName } from '../../core/priority.ts';
import { isTerminal, JOB_STATES } from '../../core/states.ts';
import { recordActions } from '../../ledger/audit/record-action.ts';
import { inTransaction } from '../../ledger/driver/database.ts';
import type { Queryable } from '../../ledger/driver/statement.ts';
import { type IngestTask, payloadsOf, tasksIn } from '../../ledger/ingest/read-resources.ts';
import { holdIngestJob, relinkResource, reopenIngestJob } from '../../ledger/ingest/settle-jobs.ts';
import { appendEntries } from '../../ledger/ingest/streams.ts';
import { retryJob } from '../../ledger/jobs/retry-jobs.ts';
import { cancelIds } from '../jobs/cancel-job.ts';
import { prepareSubmission } from '../jobs/prepare-submission.ts';
import type { IngestContext } from './context.ts';
import { downloadSubmission, knownType } from './download-submission.ts';
import type { IngestJob } from './read-jobs.ts';

export type Acting = {
  readonly job: IngestJob;
  readonly actor: string;
  readonly requestId?: string | null;
  readonly reason: string | null;
};

const LIVE_STATES = JOB_STATES.filter((state) => !isTerminal(state));

/** Cancels every download that has not ended. Returns how many that concerns. */
export async function cancelIngestJob(c: IngestContext, { job, actor, requestId = null, reason }: Acting): Promise<{ cancelled: number }> {
  const open = await tasksIn(c.engine.database.api, job.id, LIVE_STATES);
  const ids = open.map(({ taskId }) => taskId);
  const results = await cancelIds(c.engine, { ids, orgId: job.orgId, projectId: null, reason, actor, requestId, force: false });
  const cancelled = results.filter(({ kind }) => kind === 'cancelled' || kind === 'requested' || kind === 'retry_dropped').length;
  const message = `An operator cancelled ${cancelled} downloads.`;
  const requester = { actor, requestId, reason };
  await inTransaction(c.engine.database.api, async (client) => {
    await recordActions(client, [
      { orgId: job.orgId, event: 'ingest.cancelled', requester, details: { ingest_job_id: job.id, cancelled } },
    ]);
    await note(client, job, { level: 'warn', event: 'job.cancelled', message, details: { actor, reason, cancelled } });
  });
  c.onChanged([job.id]);
  return { cancelled };
}

/**
 * Retries the downloads that failed, in one transaction. Those that completed are left alone. The transaction holds the job, so that it is
 * not settled before the downloads run again.
 */
export async function retryIngestJob(c: IngestContext, { job, actor, requestId = null, reason }: Acting): Promise<{ retried: number }> {
  const retried = await c.engine.writer.transact(job.orgId, async (client) => {
    if (!(await holdIngestJob(client, job.id))) return 0;
    const failed = await tasksIn(client, job.id, ['failed', 'dead_letter', 'cancelled']);
    if (failed.length === 0) return 0;
    await reopenIngestJob(client, job.id);
    const cancelled = failed.filter(({ state }) => state === 'cancelled');
    const renewed = await renewCancelled(c, client, { job, actor, requestId, tasks: cancelled });
    const others = failed.filter(({ state }) => state !== 'cancelled');
    const all = renewed + (await retryFailed(client, { job, actor, requestId, tasks: others }));
    const requester = { actor, requestId, reason };
    await recordActions(client, [
      { orgId: job.orgId, event: 'ingest.retried', requester, details: { ingest_job_id: job.id, retried: all } },
    ]);
    return all;
  });
  if (retried === 0) return { retried };
  c.engine.hint('ready');
  const message = `An operator retried ${retried} downloads.`;
  await note(c.engine.database.api, job, { level: 'info', event: 'job.retried', message, details: { actor, reason, retried } });
  c.onChanged([job.id]);
  return { retried };
}

type Chosen = {
  readonly job: IngestJob;
  readonly actor: string;
  readonly requestId?: string | null;
  readonly tasks: readonly IngestTask[];
};

async function retryFailed(client: pg.PoolClient, { job: { orgId }, actor, requestId, tasks }: Chosen): Promise<number> {
  let retried = 0;
  for (const { taskId } of tasks) {
    const request = { orgId, projectId: null, id: taskId, resetAttempts: true, priority: null, delayMs: 0, actor, requestId };
    if ((await retryJob(client, request)).kind === 'queued') retried++;
  }
  return retried;
}

/** A cancelled job cannot run again, so the resource gets a new one with the same payload. */
async function renewCancelled(c: IngestContext, client: pg.PoolClient, { job, actor, requestId, tasks }: Chosen): Promise<number> {
  if (tasks.length === 0) return 0;
  const payloads = new Map(
    (
      await payloadsOf(
        client,
        tasks.map(({ taskId }) => taskId),
      )
    ).map((each) => [each.taskId, each]),
  );
  const entries = [];
  for (const { position, taskId } of tasks) {
    const old = payloads.get(taskId);
    if (old === undefined) continue;
    const submission = downloadSubmission(knownType(c, job.jobType), JSON.parse(old.payload), { priority: priorityName(old.priority) });
    const terms = { profile: c.policy, ...(requestId == null ? {} : { requestId }) };
    const prepared = await prepareSubmission(c.engine, { orgId: job.orgId, submission, actor, terms });
    if (!prepared.ok) throw new Error(`The download of ${taskId} cannot be queued again: ${prepared.issues[0]?.message}`);
    const { entry } = prepared;
    if (await relinkResource(client, { jobId: job.id, position, from: taskId, to: entry.id })) entries.push(entry);
  }
  if (entries.length > 0) await c.engine.writer.writeTogether(entries, client);
  return entries.length;
}

async function note(db: Queryable, { id, orgId }: IngestJob, line: IngestLogLine): Promise<void> {
  await appendEntries(db, [{ stream: 'jobs.logs', orgId, jobId: id, body: { ...line } }]);
}
