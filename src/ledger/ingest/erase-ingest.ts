import { type Queryable, run, statement } from '../driver/statement.ts';

const JOBS = statement(
  'ingest_jobs_to_erase',
  `SELECT id, bucket, job_type AS "jobType" FROM millrace.ingest_jobs WHERE org_id = $1::uuid AND id > $2::uuid ORDER BY id LIMIT $3::int4`,
);

/** An ingest job whose objects are to be removed. */
export type IngestToErase = { readonly id: string; readonly bucket: string; readonly jobType: string };

export const ingestJobsToErase = (
  db: Queryable,
  { orgId, after, limit }: { orgId: string; after: string; limit: number },
): Promise<IngestToErase[]> => run<IngestToErase>(db, JOBS, [orgId, after, limit]);

const TASKS = statement(
  'ingest_tasks_to_erase',
  `SELECT j.id, j.completed_at IS NULL AS "isOpen", j.worker_id IS NOT NULL AS "isRunning", j.payload->'storage'->>'bucket' AS bucket,
     j.payload->'storage'->>'key' AS key
   FROM millrace.ingest_resources r JOIN millrace.jobs j ON j.id = r.task_id WHERE r.job_id = $1::uuid ORDER BY r.position`,
);

export type TaskToErase = {
  readonly id: string;
  readonly isOpen: boolean;
  readonly isRunning: boolean;
  readonly bucket: string | null;
  readonly key: string | null;
};

/** The downloads of an ingest job that are still known, with the places of their objects. */
export const ingestTasksToErase = (db: Queryable, jobId: string): Promise<TaskToErase[]> => run<TaskToErase>(db, TASKS, [jobId]);

const REMOVE = statement(
  'erase_ingest_job',
  `WITH gone AS (DELETE FROM millrace.ingest_jobs WHERE id = $1::uuid AND org_id = $2::uuid RETURNING 1)
   UPDATE millrace.org_erasures SET objects_removed = objects_removed + $3::int8, rows_removed = rows_removed + 1
   WHERE org_id = $2::uuid AND EXISTS (SELECT FROM gone)`,
);

/** Removes an ingest job after its objects, with its resources and keys. */
export async function eraseIngestJob(db: Queryable, { id, orgId, objects }: { id: string; orgId: string; objects: number }): Promise<void> {
  await run(db, REMOVE, [id, orgId, objects]);
}
