import { type Queryable, run, statement } from '../driver/statement.ts';
import { countedText, RECORD, recordedText } from '../history/record-events.ts';
import { LOGGED, type LoggedJob } from '../moved-jobs.ts';
import { readyText } from '../tokens.ts';

// The lower bound skips the index entries of removed timers. A timer that was written late may lie below it, so the caller resets the
// bound from time to time. The stager does not wait for a due job that another transaction holds: its timer moves behind all other due
// timers.
const STAGE = statement(
  'stage_jobs',
  `WITH ${RECORD}, due AS MATERIALIZED (
  SELECT ctid AS tid, run_at, org_id, seq FROM millrace.timers
  WHERE run_at >= coalesce($2::timestamptz, '-infinity') AND run_at <= millrace.clock()
  ORDER BY run_at LIMIT $1::int4 FOR UPDATE SKIP LOCKED
), tried AS MATERIALIZED (
  SELECT d.tid, d.org_id, d.seq, j.state FROM due d LEFT JOIN LATERAL (
    SELECT j.state FROM millrace.jobs j WHERE j.org_id = d.org_id AND j.seq = d.seq
      AND j.state IN ('delayed', 'retrying') AND j.run_at <= millrace.clock() FOR NO KEY UPDATE SKIP LOCKED) j ON true
), held AS MATERIALIZED (
  SELECT t.tid FROM tried t CROSS JOIN LATERAL (
    SELECT FROM millrace.jobs j WHERE j.org_id = t.org_id AND j.seq = t.seq
      AND j.state IN ('delayed', 'retrying') AND j.run_at <= millrace.clock() OFFSET 0) j WHERE t.state IS NULL
), put_off AS (
  UPDATE millrace.timers t SET run_at = millrace.clock() FROM held h WHERE t.ctid = h.tid
), taken AS (
  DELETE FROM millrace.timers t USING due d WHERE t.ctid = d.tid AND d.tid NOT IN (SELECT tid FROM held)
), locked AS MATERIALIZED (
  SELECT DISTINCT org_id, seq, state FROM tried WHERE state IS NOT NULL
), staged AS (
  UPDATE millrace.jobs j SET state = 'scheduled', scheduled_at = millrace.clock(), updated_at = millrace.clock(),
    attempt_slot = j.attempt_slot + (l.state = 'retrying')::int4, ${countedText()}
  FROM locked l WHERE j.org_id = l.org_id AND j.seq = l.seq
  RETURNING j.seq, j.order_key, j.lifetime_deadline, j.org_id, j.priority, j.queue, j.job_type, j.limit_id, j.lease_seq, j.event_count,
    j.attempts_started, j.round, l.state AS from_state,
    CASE WHEN $3::bool THEN json_build_object(${LOGGED}, 'from', l.state) END AS logged
), ${readyText('staged')}, recorded AS (
  ${recordedText({
    source: 'staged',
    from: 'from_state',
    to: `'scheduled'`,
    groupBy: ['from_state'],
    reason: `CASE from_state WHEN 'delayed' THEN 'delay_elapsed' ELSE 'backoff_elapsed' END`,
  })}
)
SELECT (SELECT count(*) FROM staged) AS staged, (SELECT count(*) FROM held) AS held,
  (SELECT floor(extract(epoch FROM max(run_at)) * 1000)::float8 FROM due) AS floor_ms,
  ceil(extract(epoch FROM CASE WHEN (SELECT count(*) FROM due) >= $1::int4 THEN interval '0' ELSE
    (SELECT run_at FROM millrace.timers WHERE run_at > millrace.clock() ORDER BY run_at LIMIT 1) - millrace.clock() END) * 1000)::float8
    AS next_in_ms,
  (SELECT json_agg(logged) FROM staged WHERE $3::bool) AS jobs`,
);

export type Staged = {
  staged: number;
  /** Due jobs that other transactions hold. */
  held: number;
  /** The time until the next timer is due, by the database's clock; null if there is none. */
  nextInMs: number | null;
  /** The lower bound for the next call. */
  floor: Date | null;
  /** Only if the caller asked for them. */
  jobs: readonly StagedRow[];
};

type StagedRow = LoggedJob & { from: 'delayed' | 'retrying' };

export type StageParams = { limit: number; floor: Date | null; namesJobs?: boolean };

/** Makes due jobs ready, except jobs that another transaction holds. A timer that no longer fits its job is dropped. */
export async function stageJobs(db: Queryable, params: StageParams): Promise<Staged> {
  type Row = {
    staged: number;
    held: number;
    floor_ms: number | null;
    next_in_ms: number | null;
    jobs: StagedRow[] | null;
  };
  const [row] = await run<Row>(db, STAGE, [params.limit, params.floor, params.namesJobs ?? false]);
  const { staged, held, floor_ms, next_in_ms, jobs } = row as Row;
  return {
    staged,
    held,
    nextInMs: next_in_ms,
    floor: floor_ms === null ? params.floor : new Date(floor_ms),
    jobs: jobs ?? [],
  };
}
