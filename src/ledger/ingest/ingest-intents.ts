import { type Queryable, run, statement } from '../driver/statement.ts';

/** A submission whose objects may exist although it was not accepted. */
export type IngestIntent = { readonly jobId: string; readonly bucket: string; readonly jobType: string };

const ADD = statement(
  'add_ingest_intent',
  `INSERT INTO millrace.ingest_intents (job_id, bucket, job_type, created_at) VALUES ($1::uuid, $2, $3, millrace.clock())`,
);

const STALE = statement(
  'list_stale_intents',
  `SELECT job_id AS "jobId", bucket, job_type AS "jobType" FROM millrace.ingest_intents
   WHERE created_at <= millrace.clock() - $1::float8 * interval '1 ms' ORDER BY created_at LIMIT $2::int4`,
);

const REMOVE = statement('remove_ingest_intent', 'DELETE FROM millrace.ingest_intents WHERE job_id = $1::uuid');

export async function addIntent(db: Queryable, { jobId, bucket, jobType }: IngestIntent): Promise<void> {
  await run(db, ADD, [jobId, bucket, jobType]);
}

/** Intents that are so old that their requests have ended. */
export async function staleIntents(db: Queryable, { olderThanMs, limit }: { olderThanMs: number; limit: number }): Promise<IngestIntent[]> {
  return run<IngestIntent>(db, STALE, [olderThanMs, limit]);
}

export async function removeIntent(db: Queryable, jobId: string): Promise<void> {
  await run(db, REMOVE, [jobId]);
}
