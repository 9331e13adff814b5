import type { Failure } from '../../core/failure.ts';
import type { JobState } from '../../core/states.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';

// Rows after the one that exceeds the bytes have no result, so that they take no memory here. The first row always has its result. A job
// that waits for its children already has a result, and a completed job may have failed before: neither is how the job ended.
const resultsText = (jobs: string): string => `WITH listed AS MATERIALIZED (
  ${jobs} ORDER BY t.seq OFFSET $3::int4 LIMIT $4::int4
), sized AS MATERIALIZED (
  SELECT seq, row_number() OVER by_seq = 1 OR sum(bytes) OVER by_seq <= $5::int8 AS fits FROM listed WINDOW by_seq AS (ORDER BY seq)
)
SELECT t.id, t.job_type, t.state, NOT s.fits AS is_beyond,
  CASE WHEN s.fits AND t.state = 'completed' THEN t.result::text END AS result,
  CASE WHEN s.fits AND t.state = 'completed' THEN t.result_bytes END AS result_bytes,
  CASE WHEN t.state IN ('failed', 'dead_letter', 'cancelled') THEN t.last_error END AS error
FROM sized s JOIN millrace.jobs t ON t.org_id = $1::uuid AND t.seq = s.seq ORDER BY s.seq`;

const SIZED = `SELECT t.seq, coalesce(octet_length(t.result::text), 0) + coalesce(octet_length(t.result_bytes), 0) AS bytes`;

const DEPENDENCIES = statement(
  'dependency_results',
  resultsText(`${SIZED} FROM millrace.dependencies d JOIN millrace.jobs t ON t.org_id = d.org_id AND t.seq = d.depends_on_seq
  WHERE d.org_id = $1::uuid AND d.job_seq = $2::int8`),
);

const CHILDREN = statement(
  'child_results',
  resultsText(`${SIZED} FROM millrace.jobs t WHERE t.org_id = $1::uuid AND t.parent_seq = $2::int8 AND t.joins_parent`),
);

// Only the job itself and the jobs that it depends on.
const FIND_PARENT = statement(
  'find_result_parent',
  `SELECT j.seq FROM millrace.jobs j WHERE j.id = $3::uuid AND (j.org_id = $1::uuid) IS TRUE AND (j.seq = $2::int8
     OR EXISTS (SELECT FROM millrace.dependencies d WHERE d.org_id = $1::uuid AND d.job_seq = $2::int8 AND d.depends_on_seq = j.seq))`,
);

type Reader = { orgId: string; seq: number };
type Page = { offset: number; limit: number; maxBytes: number };

export type RelatedRow = {
  id: string;
  job_type: string;
  state: JobState;
  /** The results up to and including this one have more bytes than allowed, and it was left out. */
  is_beyond: boolean;
  result: string | null;
  result_bytes: Uint8Array | null;
  error: Failure | null;
};

/** The results of the jobs that a job depends on, in the order of their submission. */
export const dependencyResults = (db: Queryable, { orgId, seq }: Reader, { offset, limit, maxBytes }: Page): Promise<RelatedRow[]> =>
  run<RelatedRow>(db, DEPENDENCIES, [orgId, seq, offset, limit, maxBytes]);

/** The results of the joined children of a job, in the order in which it spawned them. */
export const childResults = (db: Queryable, { orgId, seq }: Reader, { offset, limit, maxBytes }: Page): Promise<RelatedRow[]> =>
  run<RelatedRow>(db, CHILDREN, [orgId, seq, offset, limit, maxBytes]);

/** The number of the job whose children job `seq` may read, or null if `id` is neither that job nor one that it depends on. */
export async function findParent(db: Queryable, { orgId, seq }: Reader, id: string): Promise<number | null> {
  const [row] = await run<{ seq: number }>(db, FIND_PARENT, [orgId, seq, id]);
  return row === undefined ? null : Number(row.seq);
}
