// SQL that finds and takes ready jobs in one line over all orgs. Each function takes parameter numbers. `claim-turns-text.ts` has the SQL for
// claims in turns between orgs.

// Ranges whose queue or type is paused are removed before any lookup.
export const IS_OPEN = `NOT EXISTS (SELECT FROM millrace.queues q WHERE q.name = l.queue AND q.paused_at IS NOT NULL)
    AND NOT EXISTS (SELECT FROM millrace.job_types t WHERE t.name = l.job_type AND t.paused_at IS NOT NULL)`;

// A few more than requested, because another process may hold the first ones.
const withSpare = (limit: number): string => `$${limit}::int4 + least($${limit}::int4, 100)`;

/** Four parameters from `first` on: queues, types, priorities, floors. */
const rangeArrays = (first: number): string => `$${first}::text[], $${first + 1}::text[], $${first + 2}::int2[], $${first + 3}::int8[]`;

/** For a statement that checks whether any job is ready, in any order. */
export const openRangesText = (first: number): string => `
  SELECT * FROM unnest(${rangeArrays(first)}) AS l(queue, job_type, priority, floor) WHERE ${IS_OPEN}`;

/** With the rank of each range among the ranges of its priority. Keys are compared only within one rank. */
const rangesText = (first: number, ranks: number): string => `
  SELECT * FROM unnest(${rangeArrays(first)}, $${ranks}::int2[]) AS l(queue, job_type, priority, floor, rank) WHERE ${IS_OPEN}`;

export const LEFT = 'cardinality(r.seqs) - r.taken';

/** How many jobs the preceding runs of a group have, in claim order. */
const beforeText = (of: string) => `coalesce(sum(${of}.jobs) OVER (ORDER BY ${of}.priority, ${of}.rank, ${of}.order_key
      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)`;

// Another process may hold the first runs. A run has up to 128 jobs, so one run may contain all the jobs that a claim needs. Without
// spare runs, two processes with handlers of 5 ms drained 6 100 and 6 400 jobs/s; with them, 8 700 and 9 200.
export const SPARE_RUNS = 8;

/**
 * The first runs in claim order: as many as needed, and a few spare ones in case other claims hold the first. `runs` bounds how many
 * are read in each range.
 */
const candidatesText = ({ limit, runs }: { limit: number; runs: number }): string => `
  SELECT tid, rank, jobs AS allowed, before < ${withSpare(limit)} AS is_needed FROM (
    SELECT c.*, ${beforeText('c')} AS before, row_number() OVER (ORDER BY c.priority, c.rank, c.order_key) AS place FROM ranges l
    CROSS JOIN LATERAL (
      SELECT r.ctid AS tid, r.priority, l.rank, r.order_key, ${LEFT} AS jobs FROM millrace.ready r
      WHERE r.queue = l.queue AND r.job_type = l.job_type AND r.priority = l.priority AND r.order_key >= l.floor
      ORDER BY r.order_key LIMIT $${runs}::int4) c
  ) line WHERE before < ${withSpare(limit)} OR place <= ${SPARE_RUNS} ORDER BY priority, rank, order_key`;

/**
 * Turns candidates into leases: locks runs that no other claim holds, takes jobs from their fronts, and gives each the next fencing
 * token. A run that another claim shortened in the meantime has another address and is left out.
 */
const leasedText = (limit: number): string => `picked AS MATERIALIZED (
  SELECT r.*, c.rank, least(c.allowed, ${LEFT}) AS jobs FROM candidates c
  CROSS JOIN LATERAL (SELECT ctid AS tid, * FROM millrace.ready WHERE ctid = c.tid FOR UPDATE SKIP LOCKED) r
  LIMIT (SELECT count(*) FROM candidates WHERE is_needed)
), cut AS MATERIALIZED (
  SELECT *, least(jobs, $${limit}::int4 - before)::int4 AS cut FROM (SELECT *, ${beforeText('picked')} AS before FROM picked) p
  WHERE before < $${limit}::int4
), spent AS (
  DELETE FROM millrace.ready r USING cut c WHERE r.ctid = c.tid AND c.taken + c.cut = cardinality(c.seqs)
), shortened AS (
  UPDATE millrace.ready r SET taken = c.taken + c.cut, order_key = c.seqs[c.taken + c.cut + 1] FROM cut c WHERE r.ctid = c.tid AND c.taken + c.cut < cardinality(c.seqs)
), leased AS MATERIALIZED (
  SELECT c.org_id, c.queue, c.job_type, c.priority, c.order_key, u.seq, nextval('millrace.lease_seq') AS lease_seq
  FROM cut c CROSS JOIN LATERAL unnest(c.seqs[c.taken + 1 : c.taken + c.cut]) AS u(seq)
)`;

/** Everything up to `leased`, by the first nine parameters of a claim. */
export const LEASED_IN_LINE = `ranges AS MATERIALIZED (${rangesText(4, 9)}
), candidates AS MATERIALIZED (${candidatesText({ limit: 2, runs: 8 })}
), ${leasedText(2)}`;

/** The job of a token may have left the state or the range since the token was written. */
export const IS_STILL_THERE = `j.state = 'scheduled' AND j.worker_id IS NULL AND j.queue = l.queue AND j.job_type = l.job_type
    AND j.priority = l.priority`;
