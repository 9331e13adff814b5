import { type Queryable, run, statement } from '../driver/statement.ts';

const PRUNE_OLD = statement(
  'prune_ingest_jobs',
  `WITH old AS MATERIALIZED (
     SELECT id FROM millrace.ingest_jobs WHERE settled_at <= millrace.clock() - $1::float8 * interval '1 ms'
     ORDER BY settled_at LIMIT $2::int4 FOR UPDATE SKIP LOCKED
   )
   DELETE FROM millrace.ingest_jobs i USING old o WHERE i.id = o.id RETURNING i.id`,
);

const SIZE = statement('size_of_ingest', 'SELECT coalesce(sum(stored_bytes), 0)::int8 AS bytes FROM millrace.ingest_jobs');

// The oldest ended jobs whose bytes together are what is too much, the last of them included.
const PRUNE_EXCESS = statement(
  'prune_ingest_excess',
  `WITH ended AS MATERIALIZED (
     SELECT id, stored_bytes, settled_at FROM millrace.ingest_jobs WHERE settled_at IS NOT NULL ORDER BY settled_at, id LIMIT $2::int4
   ), excess AS MATERIALIZED (
     SELECT id FROM (SELECT id, sum(stored_bytes) OVER (ORDER BY settled_at, id) - stored_bytes AS before FROM ended) e WHERE before < $1::int8
   ), locked AS MATERIALIZED (
     SELECT i.id FROM millrace.ingest_jobs i WHERE i.id IN (SELECT id FROM excess) AND i.settled_at IS NOT NULL FOR UPDATE SKIP LOCKED
   )
   DELETE FROM millrace.ingest_jobs i USING locked l WHERE i.id = l.id RETURNING i.id`,
);

const PRUNE_KEYS = statement(
  'prune_ingest_keys',
  `WITH old AS MATERIALIZED (
     SELECT org_id, job_type, key FROM millrace.ingest_keys WHERE expires_at <= millrace.clock()
     ORDER BY expires_at LIMIT $1::int4 FOR UPDATE SKIP LOCKED
   )
   DELETE FROM millrace.ingest_keys k USING old o WHERE k.org_id = o.org_id AND k.job_type = o.job_type AND k.key = o.key
   RETURNING 1 AS one`,
);

/** Removes jobs that ended longer ago than `retentionMs`. A job that has not ended is never removed. */
export async function pruneIngestJobs(db: Queryable, { retentionMs, limit }: { retentionMs: number; limit: number }): Promise<number> {
  return (await run(db, PRUNE_OLD, [retentionMs, limit])).length;
}

/** Removes the jobs that ended first while all jobs together take more than `maxBytes`. */
export async function pruneExcess(db: Queryable, { maxBytes, limit }: { maxBytes: number; limit: number }): Promise<number> {
  const [size] = await run<{ bytes: number }>(db, SIZE);
  const excess = (size?.bytes ?? 0) - maxBytes;
  return excess <= 0 ? 0 : (await run(db, PRUNE_EXCESS, [excess, limit])).length;
}

export async function pruneIngestKeys(db: Queryable, limit: number): Promise<number> {
  return (await run(db, PRUNE_KEYS, [limit])).length;
}
