import type { PublishedRow } from '../../core/ingest/published-task.ts';
import { int4Array, jsonArray, jsonbArray, textArray, uuidArray } from '../driver/binary-array.ts';
import { namedStatement, type Queryable, run, runNamed, statement } from '../driver/statement.ts';
import type { IngestError } from './read-jobs.ts';

// Reads one entry of the index for each org, and not one for each task.
const WAITING = statement(
  'list_orgs_with_tasks',
  `WITH RECURSIVE owners AS (
     (SELECT org_id FROM millrace.task_intake ORDER BY org_id LIMIT 1)
     UNION ALL SELECT (SELECT t.org_id FROM millrace.task_intake t WHERE t.org_id > o.org_id ORDER BY t.org_id LIMIT 1) FROM owners o
       WHERE o.org_id IS NOT NULL
   )
   SELECT org_id AS "orgId" FROM owners WHERE org_id IS NOT NULL`,
);

const MEASURE = statement(
  'measure_task_intake',
  `SELECT count(*)::int4 AS tasks, coalesce(sum(bytes), 0)::int8 AS bytes FROM (
     SELECT bytes FROM millrace.task_intake WHERE org_id = $1::uuid ORDER BY id LIMIT $2::int4) t`,
);

// Each process takes other rows. At least one row is taken, however large it is.
const TAKE = statement(
  'take_tasks',
  `WITH page AS MATERIALIZED (
     SELECT id, bytes FROM millrace.task_intake WHERE org_id = $1::uuid ORDER BY id LIMIT $2::int4 FOR UPDATE SKIP LOCKED
   ), small AS MATERIALIZED (
     SELECT id FROM (SELECT id, sum(bytes) OVER (ORDER BY id) - bytes AS before FROM page) p WHERE before < $3::int8
   ), taken AS (
     DELETE FROM millrace.task_intake t USING small s WHERE t.id = s.id RETURNING t.*
   )
   SELECT id, producer, job_type AS "jobType", job_id AS "jobId", resource_id AS "resourceId", url, headers, tags, proxy, storage,
     manifest_key AS "manifestKey" FROM taken ORDER BY id`,
);

export async function orgsWithTasks(db: Queryable): Promise<string[]> {
  return (await run<{ orgId: string }>(db, WAITING)).map(({ orgId }) => orgId);
}

/** How many of the first `limit` tasks of an org wait, and their bytes. */
export async function measureTasks(db: Queryable, orgId: string, limit: number): Promise<{ tasks: number; bytes: number }> {
  const [row] = await run<{ tasks: number; bytes: number }>(db, MEASURE, [orgId, limit]);
  return row ?? { tasks: 0, bytes: 0 };
}

/** Removes the oldest tasks of an org that no other process is taking. They are back if the transaction of the client does not commit. */
export async function takeRows(
  db: Queryable,
  { orgId, limit, maxBytes }: { orgId: string; limit: number; maxBytes: number },
): Promise<PublishedRow[]> {
  return run<PublishedRow>(db, TAKE, [orgId, limit, maxBytes]);
}

type NewJob = {
  id: string;
  orgId: string;
  jobType: string;
  bucket: string;
  actor: string;
  producer: string;
  producerJobId: string;
  manifestKey: string | null;
};

const OPEN = namedStatement<NewJob, { id: string }>(
  'open_published_job',
  `INSERT INTO millrace.ingest_jobs (id, org_id, job_type, bucket, manifest_sha256, resource_count, resource_total, stored_bytes,
     log_offset, actor, created_at, updated_at, producer, producer_job_id, manifest_key)
   SELECT $id::uuid, $orgId::uuid, $jobType::text, $bucket::text, '', 0, 0, 1000,
     (SELECT next_offset FROM millrace.streams WHERE name = 'jobs.logs'), $actor::text, t.now, t.now, $producer::text,
     $producerJobId::uuid, $manifestKey::text
   FROM (SELECT millrace.clock() AS now) t
   ON CONFLICT (org_id, job_type, producer_job_id) WHERE producer_job_id IS NOT NULL DO NOTHING RETURNING id`,
);

/** A job that tasks are added to. */
export type PublishedJob = { readonly id: string; readonly total: number; readonly isNew: boolean; readonly isSettled: boolean };

// A settler that holds the row is waited for, so that the job is not settled while tasks are added.
const HOLD = statement(
  'hold_published_job',
  `SELECT id, resource_total AS total, false AS "isNew", settled_at IS NOT NULL AS "isSettled" FROM millrace.ingest_jobs
   WHERE org_id = $1::uuid AND job_type = $2 AND producer_job_id = $3::uuid FOR NO KEY UPDATE`,
);

/** Creates the job of a producer's job id, or finds and locks it. */
export async function openPublishedJob(db: Queryable, job: NewJob): Promise<PublishedJob> {
  const [made] = await runNamed(db, OPEN, job);
  if (made !== undefined) return { id: made.id, total: 0, isNew: true, isSettled: false };
  const [found] = await run<PublishedJob>(db, HOLD, [job.orgId, job.jobType, job.producerJobId]);
  return found ?? openPublishedJob(db, job); // It was removed after its retention in this moment.
}

const KNOWN = statement(
  'find_published_resources',
  'SELECT resource_id AS id FROM millrace.ingest_resources WHERE job_id = $1::uuid AND resource_id = ANY ($2::text[])',
);

/** Which of these resources the job has. */
export async function knownResources(db: Queryable, jobId: string, resourceIds: readonly string[]): Promise<Set<string>> {
  const rows = await run<{ id: string }>(db, KNOWN, [jobId, textArray(resourceIds)]);
  return new Set(rows.map(({ id }) => id));
}

/** A resource with an error has failed without a download. */
export type AddedResource = { readonly resourceId: string; readonly taskId: string; readonly error: IngestError | null };

const ADD = statement(
  'add_published_resources',
  `WITH grown AS (
     UPDATE millrace.ingest_jobs SET resource_count = resource_count + cardinality($3::int4[]), resource_total = resource_total + cardinality($3::int4[]),
       stored_bytes = stored_bytes + $7::int8, settled_at = NULL, completed = NULL, failed = NULL, bytes = NULL, last_error = NULL,
       updated_at = millrace.clock() WHERE id = $1::uuid
   )
   INSERT INTO millrace.ingest_resources (job_id, position, org_id, resource_id, task_id, ended_state, ended_at, error)
   SELECT $1::uuid, u.position, $2::uuid, u.resource_id, u.task_id, CASE WHEN u.error IS NOT NULL THEN 'failed'::millrace.job_state END,
     CASE WHEN u.error IS NOT NULL THEN millrace.clock() END, u.error::jsonb
   FROM unnest($3::int4[], $4::text[], $5::uuid[], $6::json[]) AS u(position, resource_id, task_id, error)`,
);

/** Adds resources to a job whose row the transaction holds. A job that has ended is open again. */
export async function addResources(
  db: Queryable,
  { job, orgId, resources, bytes }: { job: PublishedJob; orgId: string; resources: readonly AddedResource[]; bytes: number },
): Promise<void> {
  await run(db, ADD, [
    job.id,
    orgId,
    int4Array(resources.map((_, index) => job.total + index)),
    textArray(resources.map(({ resourceId }) => resourceId)),
    uuidArray(resources.map(({ taskId }) => taskId)),
    jsonArray(resources.map(({ error }) => (error === null ? null : JSON.stringify(error)))),
    bytes,
  ]);
}

/** A task to publish. The objects are JSON. */
export type RowToPublish = {
  readonly resourceId: string;
  readonly url: string;
  readonly headers: string | null;
  readonly tags: string | null;
  readonly proxy: string | null;
  readonly storage: string | null;
};

const COLUMNS = 'job_type, job_id, resource_id, url, headers, tags, proxy, storage, manifest_key';
const ROWS = `SELECT $1::text, $2::uuid, u.*, $9::text
   FROM unnest($3::text[], $4::text[], $5::jsonb[], $6::jsonb[], $7::text[], $8::jsonb[]) AS u`;

// The statement of a producer, whose role determines the org. It may not name the columns that the owner of the table may.
const PUBLISH = statement('publish_tasks', `INSERT INTO millrace.task_intake (${COLUMNS}) ${ROWS}`);

const PUBLISH_FOR = statement(
  'publish_tasks_for_org',
  `INSERT INTO millrace.task_intake (${COLUMNS}, org_id) ${ROWS.replace('$9::text', '$9::text, $10::uuid')}`,
);

/** Publishes tasks in one statement. Without an org the role of the connection determines it. */
export async function publishRows(
  db: Queryable,
  {
    jobType,
    jobId,
    manifestKey,
    orgId,
    rows,
  }: { jobType: string; jobId: string; manifestKey: string | null; orgId: string | null; rows: readonly RowToPublish[] },
): Promise<void> {
  const values = [
    jobType,
    jobId,
    textArray(rows.map(({ resourceId }) => resourceId)),
    textArray(rows.map(({ url }) => url)),
    jsonbArray(rows.map(({ headers }) => headers)),
    jsonbArray(rows.map(({ tags }) => tags)),
    textArray(rows.map(({ proxy }) => proxy)),
    jsonbArray(rows.map(({ storage }) => storage)),
    manifestKey,
  ];
  if (orgId === null) await run(db, PUBLISH, values);
  else await run(db, PUBLISH_FOR, [...values, orgId]);
}
