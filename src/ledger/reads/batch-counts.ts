import type { Owner } from '../../core/owner.ts';
import { JOB_STATES, type JobState } from '../../core/states.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';

/** How many jobs of a batch are in each state, all at the same moment. */
export type BatchCounts = {
  /** How many jobs the batch has, also those that were removed since. */
  readonly total: number;
  readonly states: Record<JobState, number>;
  /** Whether all jobs of the batch are submitted. */
  readonly isSubmitted: boolean;
};

/** Job `j` of each range of a piece `p` of batch `b`. An index scan for each range reads 1000 neighbours at once. */
const JOBS_OF_PART = `unnest(p.seqs) AS u(seqs) CROSS JOIN LATERAL (
     SELECT * FROM millrace.jobs j WHERE j.org_id = b.org_id AND j.seq >= lower(u.seqs) AND j.seq < upper(u.seqs) OFFSET 0) j`;

// One snapshot of the rows of the jobs, which are the truth. No counter exists that could drift. No job leaves `completed`, so a piece
// whose jobs all completed is marked and not read again, also when its jobs were removed since. Another count may hold its row.
const COUNT = statement(
  'count_batch',
  `WITH batch AS MATERIALIZED (
     SELECT id, org_id, submitted_at FROM millrace.batches
     WHERE id = $1::uuid AND org_id = $2::uuid AND ($3::uuid IS NULL OR project_id = $3::uuid)
   ), parts AS MATERIALIZED (
     SELECT p.part, p.jobs, p.is_completed, p.seqs
     FROM batch b CROSS JOIN LATERAL (SELECT * FROM millrace.batch_parts p WHERE p.batch_id = b.id OFFSET 0) p
   ), counted AS MATERIALIZED (
     SELECT p.part, p.jobs, c.state, c.found FROM batch b CROSS JOIN parts p CROSS JOIN LATERAL (
       SELECT j.state, count(*)::int4 AS found FROM ${JOBS_OF_PART} GROUP BY j.state) c
     WHERE NOT p.is_completed
   ), done AS MATERIALIZED (
     SELECT d.part FROM counted c CROSS JOIN LATERAL (
       SELECT p.part FROM millrace.batch_parts p WHERE p.batch_id = $1::uuid AND p.part = c.part AND NOT p.is_completed
       FOR NO KEY UPDATE SKIP LOCKED) d
     WHERE c.state = 'completed' AND c.found = c.jobs
   ), marked AS (
     UPDATE millrace.batch_parts p SET is_completed = true FROM done d WHERE p.batch_id = $1::uuid AND p.part = d.part
   )
   SELECT NULL AS state, coalesce((SELECT sum(jobs) FROM parts), 0)::int4 AS jobs, submitted_at IS NOT NULL AS is_submitted FROM batch
   UNION ALL SELECT state::text, sum(found)::int4, NULL FROM counted GROUP BY state
   UNION ALL SELECT 'completed', sum(jobs)::int4, NULL FROM parts WHERE is_completed HAVING count(*) > 0`,
);

type Row = { state: null; jobs: number; is_submitted: boolean } | { state: JobState; jobs: number };

/** Returns null if the owner has no such batch. */
export async function countBatch(db: Queryable, { orgId, projectId }: Owner, id: string): Promise<BatchCounts | null> {
  const rows = await run<Row>(db, COUNT, [id, orgId, projectId]);
  const states = Object.fromEntries(JOB_STATES.map((state) => [state, 0])) as Record<JobState, number>;
  let batch: Omit<BatchCounts, 'states'> | null = null;
  for (const row of rows) {
    if (row.state === null) batch = { total: row.jobs, isSubmitted: row.is_submitted };
    else states[row.state] += row.jobs;
  }
  return batch === null ? null : { ...batch, states };
}

const FAILURES = statement(
  'list_batch_failures',
  `SELECT j.seq, j.id, j.state, j.job_type, j.last_error::text AS last_error
   FROM millrace.batches b
   CROSS JOIN LATERAL (SELECT p.seqs FROM millrace.batch_parts p WHERE p.batch_id = b.id AND NOT p.is_completed OFFSET 0) p
   CROSS JOIN LATERAL ${JOBS_OF_PART}
   WHERE b.id = $1::uuid AND b.org_id = $2::uuid AND ($5::uuid IS NULL OR b.project_id = $5::uuid) AND j.seq > $3::int8 AND j.state IN ('failed', 'dead_letter', 'cancelled')
   ORDER BY j.seq LIMIT $4::int4`,
);

export type BatchFailureRow = { seq: number; id: string; state: JobState; job_type: string; last_error: string | null };

export type FailuresWanted = { id: string; afterSeq: number; limit: number };

/** Returns jobs of a batch that ended without completing, in the order of their submission. */
export const listBatchFailures = (
  db: Queryable,
  { orgId, projectId }: Owner,
  { id, afterSeq, limit }: FailuresWanted,
): Promise<BatchFailureRow[]> => run<BatchFailureRow>(db, FAILURES, [id, orgId, afterSeq, limit, projectId]);
