// How statements write the tokens of the jobs that they move: see "The life of a job in the tables" in the architecture. Each function
// returns parts of a WITH. `source` is a table expression, with its WHERE if it needs one.

/** Neighbours in line share a row of `ready`. The number of jobs in a row is bounded, so that it stays cheap to take one out. */
export const RUN_OF_NEIGHBOURS = 'seq >> 7';

/** The first job of such a row precedes the others by less than this. */
const LONGEST_RUN = 128;

const LIMITED_COLUMNS = 'limit_id, order_key, dies_at, org_id, priority, queue, job_type, seq';

/**
 * Puts each job into its own row of `ready`, or of `limited` if it has a limit: such a job needs a grant first (decision 0048). `source`
 * has the column `limit_id`.
 */
export const readyText = (
  source: string,
  { priority = 'priority', jobType = 'job_type' }: { priority?: string; jobType?: string } = {},
): string => `made_ready AS (
  INSERT INTO millrace.ready (order_key, dies_at, org_id, priority, queue, job_type, seqs)
  SELECT order_key, lifetime_deadline, org_id, ${priority}, queue, ${jobType}, ARRAY[seq] FROM (SELECT * FROM ${source}) s WHERE limit_id IS NULL
), ${limitedText(`(SELECT * FROM ${source}) s WHERE limit_id IS NOT NULL`, { priority, jobType })}`;

/** A job has one token in `limited`. A new one replaces a token that the job left behind, or whose queue, type or priority changed. */
export const limitedText = (
  source: string,
  { priority = 'priority', jobType = 'job_type' }: { priority?: string; jobType?: string } = {},
): string => `made_limited AS (
  INSERT INTO millrace.limited (${LIMITED_COLUMNS})
  SELECT limit_id, order_key, lifetime_deadline, org_id, ${priority}, queue, ${jobType}, seq FROM ${source}
  ON CONFLICT (org_id, seq) DO UPDATE SET limit_id = excluded.limit_id, order_key = excluded.order_key, dies_at = excluded.dies_at,
    priority = excluded.priority, queue = excluded.queue, job_type = excluded.job_type
)`;

/** Lets jobs wait for their time. */
export const timedText = (source: string): string => `timed AS (
  INSERT INTO millrace.timers (run_at, dies_at, seq, org_id)
  SELECT run_at, lifetime_deadline, seq, org_id FROM ${source}
)`;

/** Adds a release for each job of `source` that ended while other jobs wait for it (its column `is_awaited` is true). */
export const releasedText = (source: string, orgId = 'org_id'): string => `released AS (
  INSERT INTO millrace.releases (org_id, seq) SELECT ${orgId}, seq FROM ${source} WHERE is_awaited
)`;

/** Removes the claims of worker $1 whose numbers are in parameter `claimNos`. */
export const closedText = (claimNos: string): string => `closed AS (
  DELETE FROM millrace.claims c USING unnest(${claimNos}::int8[]) AS k(claim_no) WHERE c.worker_id = $1::int8 AND c.claim_no = k.claim_no
)`;

/**
 * Takes jobs out of `ready`, from a row of one job or of many. `source` has the locked jobs with their queue, type and priority; `where`
 * selects among them. The statement skips rows that another transaction holds, because claims lock tokens before jobs. The claim
 * that takes such a row finds that the job no longer fits, and drops the token.
 */
export const withdrawnText = (source: string, where: string): string => `tokens AS MATERIALIZED (
  SELECT r.tid, l.seq FROM ${source} l CROSS JOIN LATERAL (
    SELECT r.ctid AS tid FROM millrace.ready r WHERE r.queue = l.queue AND r.job_type = l.job_type AND r.priority = l.priority
      AND r.order_key = l.order_key AND r.seqs[r.taken + 1 :] = ARRAY[l.seq] FOR UPDATE SKIP LOCKED) r
  WHERE ${where}
), runs AS MATERIALIZED (
  SELECT r.tid, r.seqs, array_agg(l.seq) AS gone FROM ${source} l CROSS JOIN LATERAL (
    SELECT r.ctid AS tid, r.seqs[r.taken + 1 :] AS seqs FROM millrace.ready r WHERE r.queue = l.queue AND r.job_type = l.job_type
      AND r.priority = l.priority AND r.order_key > l.seq - ${LONGEST_RUN} AND r.order_key <= l.seq
      AND l.seq = ANY (r.seqs[r.taken + 1 :]) FOR UPDATE SKIP LOCKED) r
  WHERE ${where} AND NOT EXISTS (SELECT FROM tokens t WHERE t.seq = l.seq) GROUP BY r.tid, r.seqs
), kept AS MATERIALIZED (
  SELECT tid, ARRAY(SELECT u.seq FROM unnest(seqs) AS u(seq) WHERE u.seq <> ALL (gone) ORDER BY u.seq) AS seqs FROM runs
), dropped AS (
  DELETE FROM millrace.ready r
  USING (SELECT tid FROM tokens UNION ALL SELECT tid FROM kept WHERE cardinality(seqs) = 0) t WHERE r.ctid = t.tid
), narrowed AS (
  UPDATE millrace.ready r SET seqs = k.seqs, taken = 0, order_key = k.seqs[1] FROM kept k
  WHERE r.ctid = k.tid AND cardinality(k.seqs) > 0
)`;
