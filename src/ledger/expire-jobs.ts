import { LIFETIME_FAILURE } from '../core/failure.ts';
import { countedText, RECORD, recordedText } from './record-events.ts';
import { type Queryable, run, statement } from './statement.ts';

// Every job that waits has a token with its deadline, so a sweep over three narrow tables finds them all. A token past its
// deadline goes in any case: its job ends here, or left it behind (a manual retry, which alone sets a new deadline, writes
// a new token). Jobs that run are not touched: their worker aborts them, or its rescuer does.
const takenText = (table: 'ready' | 'timers' | 'waiting', returned = 'seq') => `
  DELETE FROM millrace.${table} WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM millrace.${table} WHERE dies_at < millrace.clock() LIMIT $1::int4 FOR UPDATE SKIP LOCKED))
  RETURNING org_id, ${returned}`;

const EXPIRE = statement(
  'expire_jobs',
  `WITH ${RECORD}, from_ready AS (${takenText('ready', 'seqs[taken + 1 :] AS seqs')}
), from_timers AS (${takenText('timers')}
), from_waiting AS (${takenText('waiting')}
), found AS MATERIALIZED (
  SELECT org_id, unnest(seqs) AS seq FROM from_ready UNION SELECT org_id, seq FROM from_timers UNION SELECT org_id, seq FROM from_waiting
), locked AS MATERIALIZED (
  SELECT j.org_id, j.seq, j.state FROM found f JOIN millrace.jobs j ON j.org_id = f.org_id AND j.seq = f.seq
  WHERE (j.state IN ('pending', 'delayed', 'scheduled', 'retrying') OR (j.state = 'running' AND j.is_held))
    AND j.lifetime_deadline < millrace.clock()
  ORDER BY j.seq FOR UPDATE OF j
), expired AS (
  UPDATE millrace.jobs j SET state = 'dead_letter', completed_at = millrace.clock(), updated_at = millrace.clock(),
    worker_id = NULL, is_held = false, result = NULL, result_bytes = NULL, last_error = $2::json, ${countedText()}
  FROM locked l WHERE j.org_id = l.org_id AND j.seq = l.seq
  RETURNING j.org_id, j.seq, j.job_type, j.priority, j.lease_seq, j.event_count, j.attempts_started, j.round, l.state AS from_state,
    j.has_dependents OR j.joins_parent AS is_awaited
), released AS (
  INSERT INTO millrace.releases (org_id, seq) SELECT org_id, seq FROM expired WHERE is_awaited
), recorded AS (
  ${recordedText({
    ...{
      source: 'expired',
      from: 'from_state',
      to: `'dead_letter'`,
      reason: `'lifetime_exceeded'`,
      detail: '$2::json',
    },
    groupBy: ['from_state'],
  })}
)
SELECT (SELECT count(*) FROM expired) AS expired, coalesce((SELECT bool_or(is_awaited) FROM expired), false) AS released,
  greatest((SELECT count(*) FROM from_ready), (SELECT count(*) FROM from_timers), (SELECT count(*) FROM from_waiting)) >= $1::int4
    AS again`,
);

export type Expired = { expired: number; released: boolean; again: boolean };

const FAILURE = JSON.stringify(LIFETIME_FAILURE);

/** Ends the waiting jobs that have outlived their total lifetime. */
export async function expireJobs(db: Queryable, limit: number): Promise<Expired> {
  const [row] = await run<Expired>(db, EXPIRE, [limit, FAILURE]);
  return row as Expired;
}
