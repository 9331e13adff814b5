import type pg from 'pg';
import { FINALIZE_TYPE } from '../../core/ingest/fetch-task.ts';
import type { IngestSummary } from '../../core/ingest/handler.ts';
import { maskedUrl } from '../../core/ingest/masking.ts';
import { INGEST_QUEUE } from '../../core/ingest/policy.ts';
import type { NewEntry } from '../../core/ingest/stream.ts';
import { inTransaction } from '../../ledger/driver/database.ts';
import {
  type EndedResource,
  lockIngestJob,
  noteEnds,
  type SettledSums,
  setFinalizer,
  settleIngestJob,
} from '../../ledger/ingest/settle-jobs.ts';
import { appendEntries } from '../../ledger/ingest/streams.ts';
import { prepareSubmission } from '../jobs/prepare-submission.ts';
import type { IngestContext } from './context.ts';
import { knownType } from './download-submission.ts';

const ACTOR = 'system:fetchbox-settler';

/**
 * Copies what has ended of a job to the ledger, adds failed resources to the stream jobs.dlq, and settles the job when all have ended. A job
 * whose handler has a last step gets a job that runs it. All of that is one transaction, so it happens once. `taskIds`: the downloads that
 * ended, or null to look at all of them. Returns false if it did nothing, because another process works on the job.
 */
export async function settleJob(c: IngestContext, jobId: string, taskIds: readonly string[] | null): Promise<boolean> {
  // The workers' sessions keep plans. Otherwise each call would plan anew, which takes longer than to note a few ends.
  const { workers, maintenance } = c.engine.database;
  return inTransaction(taskIds === null ? maintenance : workers, async (client) => {
    const job = await lockIngestJob(client, jobId);
    if (job === null) return false;
    const ended = await noteEnds(client, jobId, taskIds);
    const sums = await settleIngestJob(client, jobId);
    const entries = [...deadLetters({ ...job, jobId, ended }), ...(sums === null ? [] : [lastLine({ ...job, jobId, sums })])];
    await appendEntries(client, entries);
    if (sums !== null) await submitFinalizer(c, client, { ...job, jobId, sums });
    return true;
  });
}

type OfJob = { jobId: string; orgId: string; jobType: string };

const DEAD = new Set(['failed', 'dead_letter']);

function deadLetters({ jobId, orgId, jobType, ended }: OfJob & { ended: readonly EndedResource[] }): NewEntry[] {
  return ended
    .filter(({ state }) => DEAD.has(state))
    .map(({ resourceId, state, error, taskId, attempts, url }) => ({
      stream: 'jobs.dlq',
      orgId,
      jobId,
      body: { job_type: jobType, resource_id: resourceId, task_id: taskId, url: maskedUrl(url), state, attempts, error },
    }));
}

function lastLine({ jobId, orgId, sums }: OfJob & { sums: SettledSums }): NewEntry {
  const { total, completed, failed, bytes } = sums;
  const isFailed = failed > 0;
  const success = total === 0 ? 'The job has no downloads.' : `All ${total} downloads completed.`;
  const message = isFailed ? `${failed} of ${total} downloads failed.` : success;
  const body = { level: isFailed ? 'error' : 'info', event: isFailed ? 'job.failed' : 'job.completed', message };
  return { stream: 'jobs.logs', orgId, jobId, body: { ...body, details: { total, completed, failed, bytes } } };
}

/** The key names the round, so a job that ends again after a retry is finalized again, and otherwise once. */
async function submitFinalizer(c: IngestContext, client: pg.PoolClient, settled: OfJob & { sums: SettledSums }): Promise<void> {
  const { jobId, orgId, jobType, sums } = settled;
  if (c.handlerOf(knownType(c, jobType)).finalizeJob === undefined) return;
  const { round, ...counts } = sums;
  const payload: IngestSummary = { jobId, jobType, ...counts };
  const submission = { type: FINALIZE_TYPE, payload, queue: INGEST_QUEUE, idempotencyKey: `${jobId}:${round}` };
  const prepared = await prepareSubmission(c.engine, { orgId, submission, actor: ACTOR, terms: { profile: c.finalPolicy } });
  if (!prepared.ok) throw new Error(`The finalizer of ${jobId} cannot be queued: ${prepared.issues[0]?.message}`);
  await c.engine.writer.writeTogether([prepared.entry], client);
  await setFinalizer(client, jobId, prepared.entry.id);
}

/** The job type may have been removed from the configuration since. */
