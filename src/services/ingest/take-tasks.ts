import { randomBytes, randomUUID } from 'node:crypto';
import type pg from 'pg';
import { isAppError } from '../../core/errors.ts';
import { uuidV7 } from '../../core/ids.ts';
import { ledgerTypeOf, type PublishedRow, readPublished, resourceIdOf } from '../../core/ingest/published-task.ts';
import type { NewEntry } from '../../core/ingest/stream.ts';
import { inTransaction } from '../../ledger/driver/database.ts';
import { appendEntries } from '../../ledger/ingest/streams.ts';
import {
  type AddedResource,
  addResources,
  knownResources,
  measureTasks,
  openPublishedJob,
  type PublishedJob,
  takeRows,
} from '../../ledger/ingest/task-intake.ts';
import type { JobToWrite } from '../../ledger/jobs/job-to-write.ts';
import { bytesOf } from '../admission/stored-limit.ts';
import { prepareSubmission } from '../jobs/prepare-submission.ts';
import type { IngestContext } from './context.ts';
import { downloadSubmission, knownType } from './download-submission.ts';

/** How many tasks are taken at once. Near the limit of the queue, fewer. */
const PAGES = [200, 20, 1];
const BYTES_AT_ONCE = 4_000_000;
/** What the row of a resource takes, in addition to the payload of its task. */
const RESOURCE_BYTES = 300;
/** How long the transaction waits for a job that another process holds before it starts again. */
const LOCK_MS = 500;

/**
 * Makes downloads of the oldest tasks that producers published for an org, in one transaction, which also removes them from the intake. So
 * each task becomes one download, whenever a process dies. Returns how many tasks were taken: none while the org has no room in the queue.
 */
export async function takeTasks(c: IngestContext, orgId: string): Promise<number> {
  const limit = await roomFor(c, orgId);
  if (limit === 0) return 0;
  // Not a connection of the API: a new policy or limit is written with another one, and a worker process may have no second one there.
  const { taken, jobIds } = await inTransaction(c.engine.database.maintenance, (client) => take(c, client, { orgId, limit }), {
    mayRepeat: true,
    lockTimeoutMs: LOCK_MS,
  });
  c.onChanged(jobIds);
  return taken;
}

/** How many tasks may be taken now. If there is no room for a whole page, a smaller one may fit. */
async function roomFor({ engine, admission }: IngestContext, orgId: string): Promise<number> {
  for (const limit of PAGES) {
    const { tasks, bytes } = await measureTasks(engine.database.maintenance, orgId, limit);
    if (tasks === 0) return 0;
    try {
      await admission.reserve({ orgId, jobs: tasks, least: tasks, bytes });
      return tasks;
    } catch (error) {
      if (!isAppError(error, 'QUOTA_EXCEEDED')) throw error;
    }
  }
  return 0;
}

type Taken = { readonly taken: number; readonly jobIds: readonly string[] };

async function take(c: IngestContext, client: pg.PoolClient, { orgId, limit }: { orgId: string; limit: number }): Promise<Taken> {
  const rows = await takeRows(client, { orgId, limit, maxBytes: BYTES_AT_ONCE });
  const groups = Map.groupBy(rows, ({ jobType, jobId }) => `${ledgerTypeOf(jobType)} ${jobId}`);
  const jobIds: string[] = [];
  // Every process locks jobs in the same order.
  for (const [, group] of [...groups].sort(([a], [b]) => (a < b ? -1 : 1))) jobIds.push(await addToJob(c, client, { orgId, rows: group }));
  return { taken: rows.length, jobIds };
}

type Group = { readonly orgId: string; readonly rows: readonly PublishedRow[] };

/** A queued task with its job, or one that was refused. */
type Made = AddedResource & { readonly row: PublishedRow; readonly entry: JobToWrite | null };

async function addToJob(c: IngestContext, client: pg.PoolClient, { orgId, rows }: Group): Promise<string> {
  const first = rows[0] as PublishedRow;
  const jobType = ledgerTypeOf(first.jobType);
  const job = await openPublishedJob(client, {
    id: uuidV7(Date.now(), randomBytes(16)),
    orgId,
    jobType,
    bucket: c.settings.bucket,
    actor: actorOf(first),
    producer: first.producer,
    producerJobId: first.jobId,
    manifestKey: rows.find(({ manifestKey }) => manifestKey !== null)?.manifestKey ?? null,
  });
  const known = await knownResources(client, job.id, rows.map(resourceIdOf));
  const repeated: PublishedRow[] = [];
  const made: Made[] = [];
  for (const row of rows) {
    const id = resourceIdOf(row);
    if (known.has(id)) repeated.push(row);
    else made.push(await makeTask(c, { orgId, row, jobId: job.id }));
    known.add(id);
  }
  const entries = made.flatMap(({ entry }) => entry ?? []);
  const bytes = made.reduce((sum, { entry }) => sum + RESOURCE_BYTES + (entry === null ? 0 : bytesOf(entry)), 0);
  if (made.length > 0) await addResources(client, { job, orgId, resources: made, bytes });
  await appendEntries(client, entriesOf({ job, orgId, jobType, made, repeated, first }));
  if (entries.length > 0) await c.engine.writer.writeTogether(entries, client);
  return job.id;
}

const actorOf = ({ producer }: PublishedRow): string => `producer:${producer}`;

/** A task that cannot be queued is a failed resource, so that it is seen and does not delay the tasks behind it. */
async function makeTask(c: IngestContext, { orgId, row, jobId }: { orgId: string; row: PublishedRow; jobId: string }): Promise<Made> {
  const resourceId = resourceIdOf(row);
  const failed = (error: Made['error']): Made => ({ row, resourceId, taskId: randomUUID(), error, entry: null });
  const read = await readPublished(row, { jobId, settings: c.settings });
  if (!read.ok) return failed(read.error);
  const submission = downloadSubmission(knownType(c, read.task.jobType), read.task);
  const prepared = await prepareSubmission(c.engine, { orgId, submission, actor: actorOf(row), terms: { profile: c.policy } });
  if (prepared.ok) return { row, resourceId, taskId: prepared.entry.id, error: null, entry: prepared.entry };
  const [issue] = prepared.issues;
  return failed({ code: issue?.code ?? 'INVALID_TASK', message: `The task was refused: ${issue?.message}.` });
}

type Writing = {
  job: PublishedJob;
  orgId: string;
  jobType: string;
  made: readonly Made[];
  repeated: readonly PublishedRow[];
  first: PublishedRow;
};

function entriesOf({ job, orgId, jobType, made, repeated, first }: Writing): NewEntry[] {
  const entry = (stream: NewEntry['stream'], body: NewEntry['body']): NewEntry => ({ stream, orgId, jobId: job.id, body });
  const refusedTasks = made.filter(({ error }) => error !== null);
  const of = ({ resourceId, taskId, row }: Made) => ({ job_type: jobType, resource_id: resourceId, task_id: taskId, url: row.url });
  return [
    ...made.flatMap((each) => (each.error === null ? entry('jobs.tasks', of(each)) : [])),
    ...refusedTasks.map((each) => entry('jobs.dlq', { ...of(each), state: 'failed', attempts: 0, error: each.error })),
    ...linesOf({ job, made, first }).map((line) => entry('jobs.logs', line)),
    ...refusedTasks.map(({ resourceId, error }) =>
      entry('jobs.logs', {
        level: 'error',
        event: 'task.refused',
        resource_id: resourceId,
        message: error?.message,
        details: { code: error?.code },
      }),
    ),
    ...repeated.map((row) => {
      const message = 'A task of this resource was published again. The job has one already, so the new one was ignored.';
      return entry('jobs.logs', { level: 'warn', event: 'task.repeated', resource_id: resourceIdOf(row), message });
    }),
  ];
}

function linesOf({ job, made, first }: Pick<Writing, 'job' | 'made' | 'first'>): NewEntry['body'][] {
  if (made.length === 0) return [];
  const details = { producer: first.producer, producer_job_id: first.jobId, resource_total: job.total + made.length };
  const line = (event: string, message: string) => ({ level: 'info', event, message, details });
  if (job.isNew) return [line('job.accepted', `The producer ${first.producer} published ${made.length} tasks.`)];
  if (job.isSettled)
    return [line('job.reopened', `The job had ended. The producer ${first.producer} published ${made.length} more tasks.`)];
  return [line('tasks.added', `The producer ${first.producer} published ${made.length} more tasks.`)];
}
