// How ready jobs are found and taken, shared by every statement that claims. Each function takes parameter numbers.

// Lanes whose queue or type is paused drop out before anything is looked up in them.
const IS_OPEN = `NOT EXISTS (SELECT FROM millrace.queues q WHERE q.name = l.queue AND q.paused_at IS NOT NULL)
    AND NOT EXISTS (SELECT FROM millrace.job_types t WHERE t.name = l.job_type AND t.paused_at IS NOT NULL)`;

// A few more than asked for, because another process may hold the first ones.
const withSpare = (limit: number): string => `$${limit}::int4 + least($${limit}::int4, 100)`;

/** Four parameters from `first` on: queues, types, priorities, floors. */
const laneArrays = (first: number): string =>
  `$${first}::text[], $${first + 1}::text[], $${first + 2}::int2[], $${first + 3}::int8[]`;

/** For a statement that looks whether anything stands in line, in whatever order. */
export const openLanesText = (first: number): string => `
  SELECT * FROM unnest(${laneArrays(first)}) AS l(queue, job_type, priority, floor) WHERE ${IS_OPEN}`;

/** With the rank of each lane among those of its priority: keys are compared within one rank only. */
export const lanesText = (first: number, ranks: number): string => `
  SELECT * FROM unnest(${laneArrays(first)}, $${ranks}::int2[]) AS l(queue, job_type, priority, floor, rank) WHERE ${IS_OPEN}`;

const LEFT = 'cardinality(r.seqs) - r.taken';

/** How many jobs the runs before this one have, in claim order, within a group. */
const beforeText = (
  of: string,
  partition = '',
) => `coalesce(sum(${of}.jobs) OVER (${partition} ORDER BY ${of}.priority, ${of}.rank, ${of}.order_key
      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)`;

// Another process may hold the first runs. A run has up to 128 jobs, so that the few that a claim needs may all lie in one. With no other
// run to turn to, two processes with handlers of 5 ms drained 6 100 and 6 400 jobs/s; with these they drained 8 700 and 9 200.
const SPARE_RUNS = 8;

/**
 * The first runs in line, as many as are needed and a few to turn to where others hold those. `runs` is how many are looked at in
 * each lane.
 */
export const candidatesText = ({ limit, runs }: { limit: number; runs: number }): string => `
  SELECT tid, rank, jobs AS allowed, before < ${withSpare(limit)} AS is_needed FROM (
    SELECT c.*, ${beforeText('c')} AS before, row_number() OVER (ORDER BY c.priority, c.rank, c.order_key) AS place FROM lanes l
    CROSS JOIN LATERAL (
      SELECT r.ctid AS tid, r.priority, l.rank, r.order_key, ${LEFT} AS jobs FROM millrace.ready r
      WHERE r.queue = l.queue AND r.job_type = l.job_type AND r.priority = l.priority AND r.order_key >= l.floor
      ORDER BY r.order_key LIMIT $${runs}::int4) c
  ) line WHERE before < ${withSpare(limit)} OR place <= ${SPARE_RUNS} ORDER BY priority, rank, order_key`;

/** The same lanes, each with the room its type has left in `rooms`. */
export const cappedLanesText = ({ first, ranks, rooms }: { first: number; ranks: number; rooms: number }): string => `
  SELECT * FROM unnest(${laneArrays(first)}, $${ranks}::int2[], $${rooms}::int4[])
    AS l(queue, job_type, priority, floor, rank, room) WHERE l.room > 0 AND ${IS_OPEN}`;

/**
 * Of each type and of each capped org no more than its room, under the locks of `claim-room.ts`. Three parameters from `orgs`
 * on: the capped orgs, their rooms, and those that are full.
 */
export const cappedCandidatesText = ({ limit, runs, orgs }: { limit: number; runs: number; orgs: number }): string => `
  SELECT tid, rank, allowed, true AS is_needed FROM (
    SELECT *, ${beforeText('fitting')} AS before FROM (
      SELECT tid, priority, rank, order_key, allowed, allowed AS jobs FROM (
        SELECT *, least(jobs, room - before_of_type, coalesce(org_room - before_of_org, jobs)) AS allowed FROM (
          SELECT c.*, l.room, o.room AS org_room, ${beforeText('c', 'PARTITION BY l.job_type')} AS before_of_type,
            ${beforeText('c', 'PARTITION BY c.org_id')} AS before_of_org
          FROM lanes l
          CROSS JOIN LATERAL (
            SELECT r.ctid AS tid, r.priority, l.rank, r.order_key, r.org_id, ${LEFT} AS jobs FROM millrace.ready r
            WHERE r.queue = l.queue AND r.job_type = l.job_type AND r.priority = l.priority AND r.order_key >= l.floor
              AND r.org_id <> ALL ($${orgs + 2}::uuid[])
            ORDER BY r.order_key LIMIT $${runs}::int4) c
          LEFT JOIN unnest($${orgs}::uuid[], $${orgs + 1}::int4[]) AS o(org_id, room) ON o.org_id = c.org_id
        ) counted
      ) ranked WHERE allowed > 0
    ) fitting
  ) line WHERE before < ${withSpare(limit)} ORDER BY priority, rank, order_key`;

/**
 * From candidates to leases: lock runs that nobody else holds, take jobs from their fronts, give each the next fencing token. A run
 * that another claim shortened meanwhile is not met again under its old address and left out.
 */
export const leasedText = (limit: number): string => `picked AS MATERIALIZED (
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

/** A token may be of a job that moved on, or to another lane, since. */
export const IS_STILL_THERE = `j.state = 'scheduled' AND j.worker_id IS NULL AND j.queue = l.queue AND j.job_type = l.job_type
    AND j.priority = l.priority`;
