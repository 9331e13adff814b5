import { LONGEST_RUN } from './ready-runs.ts';

/**
 * Takes the ready tokens of jobs back, as five parts of a WITH, one job or many in a run: what is left there no longer counts as
 * waiting. `source` has the locked jobs, each with the lane it waits in; `where` says which. A token that somebody else holds is
 * passed over, because claims lock tokens before jobs: whoever takes it finds that it no longer fits its job, and drops it.
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
