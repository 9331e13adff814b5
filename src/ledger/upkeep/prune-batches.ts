import { type Queryable, run, statement } from '../driver/statement.ts';

// A batch is removed with the last of its jobs. One that got no job at all is kept for a day: its jobs may still come.
const PRUNE_BATCHES = statement(
  'prune_batches',
  `WITH old AS MATERIALIZED (
     SELECT b.id FROM millrace.batches b
     WHERE b.created_at <= millrace.clock() - interval '1 day' AND NOT EXISTS (
       SELECT FROM millrace.batch_parts p CROSS JOIN LATERAL unnest(p.seqs) AS u(seqs)
       WHERE p.batch_id = b.id AND EXISTS (
         SELECT FROM millrace.jobs j WHERE j.org_id = b.org_id AND j.seq >= lower(u.seqs) AND j.seq < upper(u.seqs) OFFSET 0))
     LIMIT $1::int4 FOR UPDATE OF b SKIP LOCKED
   )
   DELETE FROM millrace.batches b USING old o WHERE b.id = o.id RETURNING 1 AS one`,
);

/** Removes batches without jobs. Call it again while the count reaches the limit. */
export async function pruneBatches(db: Queryable, limit: number): Promise<number> {
  return (await run(db, PRUNE_BATCHES, [limit])).length;
}
