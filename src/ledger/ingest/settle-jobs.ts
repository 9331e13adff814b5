import type { IngestSummary } from '../../core/ingest/handler.ts';
import type { JobState } from '../../core/states.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';
import { attemptsText, bytesText, countsText, errorText } from './derived-text.ts';
import type { IngestError } from './read-jobs.ts';

const OPEN = statement(
  'open_ingest_jobs',
  'SELECT id FROM millrace.ingest_jobs WHERE settled_at IS NULL AND id > $1::uuid ORDER BY id LIMIT $2::int4',
);

const OF_TASKS = statement(
  'ingest_jobs_of_tasks',
  `SELECT job_id AS id, array_agg(task_id) AS "taskIds" FROM millrace.ingest_resources WHERE task_id = ANY ($1::uuid[]) GROUP BY job_id`,
);

// One process at a time works on a job. The others skip it.
const LOCK = statement(
  'lock_ingest_job',
  'SELECT org_id AS "orgId", job_type AS "jobType" FROM millrace.ingest_jobs WHERE id = $1::uuid FOR NO KEY UPDATE SKIP LOCKED',
);

const HOLD = statement('hold_ingest_job', 'SELECT id FROM millrace.ingest_jobs WHERE id = $1::uuid FOR NO KEY UPDATE');

// A resource that was retried elsewhere has ended again, at another time. Only failures are returned, because callers need no others: a row of each
// download took time for nothing. Rows are found by one key each and updated by their address. With conditions that several indexes fit, a plan that
// was made when the tables were small compared each resource with each other one, and ran into the timeout of the session.
const noteText = (resources: string): string => `WITH noted AS (
   UPDATE millrace.ingest_resources r
   SET ended_state = j.state, ended_at = j.completed_at, bytes = ${bytesText('j')}, error = ${errorText('j')}
   FROM (SELECT r.tid, j.* FROM (${resources}) r
     CROSS JOIN LATERAL (SELECT j.state, j.completed_at, j.result, j.last_error FROM millrace.jobs j
       WHERE j.id = r.task_id AND j.state >= 'completed' OFFSET 0) j
     WHERE r.job_id = $1::uuid AND (r.ended_at IS DISTINCT FROM j.completed_at OR r.ended_state IS DISTINCT FROM j.state) OFFSET 0) j
   WHERE r.ctid = j.tid
   RETURNING r.resource_id, r.ended_state, r.error, r.task_id)
   SELECT n.resource_id AS "resourceId", n.ended_state AS state, n.error, n.task_id AS "taskId", ${attemptsText('j')} AS attempts,
     j.payload->>'url' AS url
   FROM noted n JOIN millrace.jobs j ON j.id = n.task_id WHERE n.ended_state <> 'completed'`;

const RESOURCE = 'SELECT r.ctid AS tid, r.job_id, r.task_id, r.ended_at, r.ended_state FROM millrace.ingest_resources r';
const NOTE_ENDS = statement('note_ingest_ends', noteText(`${RESOURCE} WHERE r.job_id = $1::uuid OFFSET 0`));
const NOTE_ENDS_OF = statement(
  'note_ingest_ends_of',
  noteText(`SELECT r.* FROM unnest($2::uuid[]) AS u(id) CROSS JOIN LATERAL (${RESOURCE} WHERE r.task_id = u.id OFFSET 0) r`),
);

// The ends are copied first, so most rounds need no look at the jobs to see that a download is not over.
const HAVE_ENDED = `NOT EXISTS (SELECT FROM millrace.ingest_resources e WHERE e.job_id = $1::uuid AND e.ended_at IS NULL)`;

const ENDED = statement('have_ingest_ends', `SELECT ${HAVE_ENDED} AS ended`);

// Settles again if a resource has ended since, because it was retried.
const SETTLE = statement(
  'settle_ingest_job',
  `UPDATE millrace.ingest_jobs t SET settled_at = millrace.clock(), completed = s.completed, failed = s.failed, bytes = s.bytes,
     last_error = s.error, round = t.round + 1, updated_at = greatest(t.updated_at, s.ended_at)
   FROM (SELECT i.id, c.* FROM millrace.ingest_jobs i ${countsText('true')} WHERE i.id = $1::uuid AND ${HAVE_ENDED}) s
   WHERE t.id = s.id AND s.linked = t.resource_total AND s.completed + s.failed = t.resource_total
     AND (t.settled_at IS NULL OR s.ended_at > t.settled_at)
   RETURNING t.resource_total AS total, t.completed, t.failed, t.bytes, t.round`,
);

const SET_FINALIZER = statement('set_ingest_finalizer', 'UPDATE millrace.ingest_jobs SET finalizer_id = $2::uuid WHERE id = $1::uuid');

const REOPEN = statement(
  'reopen_ingest_job',
  `UPDATE millrace.ingest_jobs SET settled_at = NULL, completed = NULL, failed = NULL, bytes = NULL, last_error = NULL,
     updated_at = millrace.clock() WHERE id = $1::uuid`,
);

const RELINK = statement(
  'relink_ingest_resource',
  `UPDATE millrace.ingest_resources SET task_id = $3::uuid, ended_state = NULL, ended_at = NULL, bytes = NULL, error = NULL
   WHERE job_id = $1::uuid AND position = $2::int4 AND task_id = $4::uuid RETURNING 1 AS one`,
);

/** A page of jobs that have not ended, in the order of their ids. */
export async function openIngestJobs(db: Queryable, { after, limit }: { after: string; limit: number }): Promise<string[]> {
  return (await run<{ id: string }>(db, OPEN, [after, limit])).map(({ id }) => id);
}

/** The jobs of these downloads, each with its own of them. */
export async function ingestJobsOfTasks(db: Queryable, taskIds: readonly string[]): Promise<Map<string, readonly string[]>> {
  const rows = await run<{ id: string; taskIds: string[] }>(db, OF_TASKS, [taskIds]);
  return new Map(rows.map((row) => [row.id, row.taskIds]));
}

/** Returns null if the job is gone or another process works on it. */
export async function lockIngestJob(db: Queryable, id: string): Promise<{ orgId: string; jobType: string } | null> {
  return (await run<{ orgId: string; jobType: string }>(db, LOCK, [id]))[0] ?? null;
}

/** Like `lockIngestJob`, but waits for the process that works on the job. Returns false if the job is gone. */
export async function holdIngestJob(db: Queryable, id: string): Promise<boolean> {
  return (await run(db, HOLD, [id])).length === 1;
}

export type EndedResource = {
  readonly resourceId: string;
  readonly state: JobState;
  readonly error: IngestError | null;
  readonly taskId: string;
  readonly attempts: number;
  readonly url: string;
};

/** Copies the ends of downloads to their resources, and returns the new failures. Null: looks at all downloads of the job. */
export async function noteEnds(db: Queryable, id: string, taskIds: readonly string[] | null): Promise<EndedResource[]> {
  return taskIds === null ? run<EndedResource>(db, NOTE_ENDS, [id]) : run<EndedResource>(db, NOTE_ENDS_OF, [id, taskIds]);
}

export type SettledSums = Pick<IngestSummary, 'total' | 'completed' | 'failed' | 'bytes'> & { readonly round: number };

/**
 * Copies the sums to the job if all its resources have ended. Returns null otherwise, and for a job that is settled. The first look is small,
 * because to plan the sums takes PostgreSQL longer than to count a thousand resources.
 */
export async function settleIngestJob(db: Queryable, id: string): Promise<SettledSums | null> {
  const [row] = await run<{ ended: boolean }>(db, ENDED, [id]);
  if (row?.ended !== true) return null;
  return (await run<SettledSums>(db, SETTLE, [id]))[0] ?? null;
}

export async function setFinalizer(db: Queryable, id: string, finalizerId: string): Promise<void> {
  await run(db, SET_FINALIZER, [id, finalizerId]);
}

/** The job has not ended any more. */
export async function reopenIngestJob(db: Queryable, id: string): Promise<void> {
  await run(db, REOPEN, [id]);
}

/** Gives a resource another job that downloads it. Returns false if somebody else did so meanwhile. */
export async function relinkResource(
  db: Queryable,
  { jobId, position, from, to }: { jobId: string; position: number; from: string; to: string },
): Promise<boolean> {
  return (await run(db, RELINK, [jobId, position, to, from])).length === 1;
}
