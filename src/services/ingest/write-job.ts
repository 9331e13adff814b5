import type pg from 'pg';
import { boundText } from '../../core/bounded-text.ts';
import { AppError, invalidRequest } from '../../core/errors.ts';
import { queueDraining } from '../../core/governance/queue-refusals.ts';
import type { FetchTask } from '../../core/ingest/fetch-task.ts';
import { type IngestJobType, priorityOf } from '../../core/ingest/job-type.ts';
import type { Manifest } from '../../core/ingest/manifest.ts';
import { maskedUrl } from '../../core/ingest/masking.ts';
import { INGEST_QUEUE } from '../../core/ingest/policy.ts';
import type { NewEntry } from '../../core/ingest/stream.ts';
import { Turns } from '../../core/turns.ts';
import { recordActions } from '../../ledger/audit/record-action.ts';
import { acceptIngestJob } from '../../ledger/ingest/accept-job.ts';
import { claimIngestKey, findIngestKey, type IngestKey, type KeyedJob } from '../../ledger/ingest/ingest-keys.ts';
import { appendEntries } from '../../ledger/ingest/streams.ts';
import type { JobToWrite } from '../../ledger/jobs/job-to-write.ts';
import { bytesOf } from '../admission/stored-limit.ts';
import { prepareSubmission } from '../jobs/prepare-submission.ts';
import type { IngestCaller, IngestContext } from './context.ts';
import { downloadSubmission } from './download-submission.ts';

export type JobWriting = {
  readonly jobId: string;
  readonly jobType: IngestJobType;
  readonly tasks: readonly FetchTask[];
  readonly manifest: Manifest;
  readonly manifestSha256: string;
  readonly key: (IngestKey & { readonly fingerprint: string; readonly windowMs: number }) | null;
  readonly caller: IngestCaller;
};

export type JobWritten = { readonly kind: 'written' } | { readonly kind: 'repeat'; readonly first: KeyedJob };

/** What the row of a job and the row of a resource take, in addition to the payloads of the tasks. */
const JOB_BYTES = 1_000;
const RESOURCE_BYTES = 300;
/** The tasks that are prepared in one turn of the event loop. */
const TASKS_PER_TURN = 100;
/** From this many tasks on, a job waits until other large ones are written. Smaller ones pass. */
const LARGE = 100;

/** Writes the job, its tasks, its key and its stream entries in one transaction, or returns the job that has the key. */
export async function writeIngestJob(c: IngestContext, writing: JobWriting): Promise<JobWritten> {
  const { orgId } = writing.caller;
  const entries = await entriesOf(c, writing);
  const bytes = entries.reduce((sum, entry) => sum + bytesOf(entry), 0);
  if (c.engine.catalogue.intakeOf(INGEST_QUEUE).isDraining) throw queueDraining(INGEST_QUEUE);
  const isLarge = entries.length >= LARGE;
  const load = { orgId, jobs: entries.length, least: entries.length, bytes };
  try {
    await c.admission.admit(
      (place) =>
        place?.client === undefined
          ? c.engine.writer.transact(orgId, (client) => write(c, client, { ...writing, entries }), { isLarge })
          : write(c, place.client, { ...writing, entries }),
      load,
    );
  } catch (error) {
    const first = error instanceof KeyTaken && writing.key !== null ? await findIngestKey(c.engine.database.api, writing.key) : null;
    if (first === null) throw error;
    return { kind: 'repeat', first };
  }
  return { kind: 'written' };
}

/** Rolls the transaction back: another submission has the key. */
class KeyTaken extends AppError {
  constructor() {
    super('UNAVAILABLE', { message: 'Another submission with this idempotency key is under way. Try again.', retryAfterMs: 1_000 });
  }
}

async function entriesOf(c: IngestContext, { tasks, jobType, manifest, caller }: JobWriting): Promise<JobToWrite[]> {
  const { orgId, actor, requestId, traceparent } = caller;
  const priority = priorityOf(jobType, manifest.attributes);
  const turns = new Turns(TASKS_PER_TURN);
  const entries: JobToWrite[] = [];
  for (const task of tasks) {
    const submission = downloadSubmission(jobType, task, { priority, traceparent });
    const prepared = await prepareSubmission(c.engine, { orgId, submission, actor, terms: { profile: c.policy, requestId } });
    if (!prepared.ok) {
      const [issue] = prepared.issues;
      const message = `The resource ${JSON.stringify(task.resourceId)} cannot be queued: ${issue?.message}`;
      throw invalidRequest({ field: 'resources', code: issue?.code ?? 'INVALID_VALUE', message });
    }
    entries.push(prepared.entry);
    const turn = turns.spend(1);
    if (turn !== undefined) await turn;
  }
  return entries;
}

async function write(c: IngestContext, client: pg.ClientBase, writing: JobWriting & { entries: JobToWrite[] }): Promise<void> {
  const { jobId, jobType, key, entries, tasks, manifest, caller } = writing;
  const { orgId } = caller;
  if (key !== null && !(await claimIngestKey(client, { ...key, jobId }))) throw new KeyTaken();
  const payloads = entries.reduce((sum, entry) => sum + bytesOf(entry), 0);
  await acceptIngestJob(client, {
    id: jobId,
    orgId,
    jobType: jobType.name,
    tenant: caller.tenant,
    bucket: c.settings.bucket,
    manifestSha256: writing.manifestSha256,
    resourceCount: manifest.resources.length,
    resources: tasks.map(({ resourceId }, index) => ({ resourceId, taskId: (entries[index] as JobToWrite).id })),
    storedBytes: JOB_BYTES + entries.length * RESOURCE_BYTES + payloads,
    actor: caller.actor,
    requestId: caller.requestId,
  });
  await appendEntries(client, [...taskEntries(writing), ...firstLines(writing)]);
  const { actor, requestId, peer } = caller;
  const details = { ingest_job_id: jobId, job_type: jobType.name, resources: manifest.resources.length, peer };
  await recordActions(client, [{ orgId, event: 'ingest.accepted', requester: { actor, requestId }, details }]);
  if (entries.length > 0) await c.engine.writer.writeTogether(entries, client);
}

/** One message for each task. Its headers and the secrets of its URL stay in the payload of the task. */
function taskEntries({ jobId, jobType, tasks, entries, caller }: JobWriting & { entries: JobToWrite[] }): NewEntry[] {
  return tasks.map(({ resourceId, url }, index) => ({
    stream: 'jobs.tasks',
    orgId: caller.orgId,
    jobId,
    body: { job_type: jobType.name, resource_id: resourceId, task_id: (entries[index] as JobToWrite).id, url: maskedUrl(url) },
  }));
}

/** An attribute may be any JSON value with any text. The log is stored in the database. */
const shown = (value: unknown): string => boundText(typeof value === 'string' ? value : JSON.stringify(value), 200);

function firstLines({ jobId, jobType, tasks, manifest, caller }: JobWriting): NewEntry[] {
  const { orgId, tenant, peer, requestId } = caller;
  const line = (body: NewEntry['body']): NewEntry => ({ stream: 'jobs.logs', orgId, jobId, body });
  const { length: total } = tasks;
  const details = { job_type: jobType.name, resource_count: manifest.resources.length, resource_total: total, request_id: requestId, peer };
  const lines = [line({ level: 'info', event: 'job.accepted', message: `The job was accepted with ${total} downloads.`, details })];
  const named = Object.hasOwn(manifest.attributes, 'tenant') ? manifest.attributes.tenant : undefined;
  if (tenant !== null && named !== undefined && named !== tenant) {
    const message = 'attributes.tenant differs from the header X-Fetchbox-Tenant. The header decides about the org.';
    lines.push(line({ level: 'warn', event: 'tenant.mismatch', message, details: { header: tenant, attribute: shown(named) } }));
  }
  return lines;
}
