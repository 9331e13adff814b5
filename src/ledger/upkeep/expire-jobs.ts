import { LIFETIME_FAILURE } from '../../core/failure.ts';
import { diedText, ENTRY_COLUMNS } from '../dead-letter-entries.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';
import { countedText, RECORD, recordedText } from '../history/record-events.ts';
import { LOGGED, type MovedJob } from '../moved-jobs.ts';
import { releasedText } from '../tokens.ts';

// Every waiting job has a token with its deadline, so a sweep over four narrow tables finds all of them. A token past its deadline is
// always removed: either its job ends here, or the job has left the token behind. Only a manual retry sets a new deadline, and it
// writes a new token. A token stays only if another transaction holds its job, and is checked again after a minute. Running jobs are
// not touched: their worker or the rescuer aborts them.
type Tokens = 'ready' | 'limited' | 'timers' | 'waiting';

const dyingText = (table: Tokens, seqs = 'ARRAY[seq]') => `
  SELECT ctid AS tid, org_id, ${seqs} AS seqs FROM millrace.${table} WHERE dies_at < millrace.clock() LIMIT $1::int4 FOR UPDATE SKIP LOCKED`;

const isHeldText = (token: string) => `EXISTS (SELECT FROM held h WHERE h.org_id = ${token}.org_id AND h.seq = ANY (${token}.seqs))`;

const removedText = (table: Tokens) => `${table}_removed AS (
  DELETE FROM millrace.${table} t USING dying_${table} d WHERE t.ctid = d.tid AND NOT ${isHeldText('d')}
), ${table}_put_off AS (
  UPDATE millrace.${table} t SET dies_at = millrace.clock() + interval '1 minute' FROM dying_${table} d
  WHERE t.ctid = d.tid AND ${isHeldText('d')}
)`;

const IS_EXPIRED = `(j.state IN ('pending', 'delayed', 'scheduled', 'retrying') OR (j.state = 'running' AND j.is_held))
      AND j.lifetime_deadline < millrace.clock()`;

const EXPIRE = statement(
  'expire_jobs',
  `WITH ${RECORD}, dying_ready AS MATERIALIZED (${dyingText('ready', 'seqs[taken + 1 :]')}
), dying_limited AS MATERIALIZED (${dyingText('limited')}
), dying_timers AS MATERIALIZED (${dyingText('timers')}
), dying_waiting AS MATERIALIZED (${dyingText('waiting')}
), found AS MATERIALIZED (
  SELECT org_id, unnest(seqs) AS seq FROM dying_ready UNION SELECT org_id, seqs[1] FROM dying_limited UNION SELECT org_id, seqs[1] FROM dying_timers
  UNION SELECT org_id, seqs[1] FROM dying_waiting
), tried AS MATERIALIZED (
  SELECT f.org_id, f.seq, j.state FROM found f LEFT JOIN LATERAL (
    SELECT j.state FROM millrace.jobs j WHERE j.org_id = f.org_id AND j.seq = f.seq AND ${IS_EXPIRED} FOR NO KEY UPDATE SKIP LOCKED) j ON true
), locked AS MATERIALIZED (
  SELECT org_id, seq, state FROM tried WHERE state IS NOT NULL
), held AS MATERIALIZED (
  SELECT t.org_id, t.seq FROM tried t CROSS JOIN LATERAL (
    SELECT FROM millrace.jobs j WHERE j.org_id = t.org_id AND j.seq = t.seq AND ${IS_EXPIRED} OFFSET 0) j WHERE t.state IS NULL
), ${removedText('ready')}, ${removedText('limited')}, ${removedText('timers')}, ${removedText('waiting')}
, expired AS (
  UPDATE millrace.jobs j SET state = 'dead_letter', completed_at = millrace.clock(), updated_at = millrace.clock(),
    worker_id = NULL, is_held = false, result = NULL, result_bytes = NULL, last_error = $2::json, ${countedText()}
  FROM locked l WHERE j.org_id = l.org_id AND j.seq = l.seq
  RETURNING j.org_id, j.seq, j.job_type, j.priority, j.lease_seq, j.event_count, j.attempts_started, j.round, l.state AS from_state,
    ${ENTRY_COLUMNS}, j.has_dependents OR j.joins_parent AS is_awaited,
    json_build_object(${LOGGED}, 'from', l.state, 'to', j.state, 'reason', 'lifetime_exceeded', 'failure', $2::json) AS moved
), ${releasedText('expired')}, ${diedText('expired', `'lifetime_exceeded'`)}, recorded AS (
  ${recordedText({
    source: 'expired',
    from: 'from_state',
    to: `'dead_letter'`,
    reason: `'lifetime_exceeded'`,
    detail: '$2::json',
    groupBy: ['from_state'],
  })}
)
SELECT (SELECT count(*) FROM expired) AS expired, coalesce((SELECT bool_or(is_awaited) FROM expired), false) AS released,
  greatest((SELECT count(*) FROM dying_ready), (SELECT count(*) FROM dying_limited), (SELECT count(*) FROM dying_timers),
    (SELECT count(*) FROM dying_waiting)) >= $1::int4
    AS again,
  coalesce((SELECT json_agg(moved) FROM expired), '[]') AS jobs`,
);

/** `jobs` are those that expired, for the log. */
export type Expired = { expired: number; released: boolean; again: boolean; jobs: readonly MovedJob[] };

const FAILURE = JSON.stringify(LIFETIME_FAILURE);

/** Ends waiting jobs that have exceeded their total lifetime, except jobs that another transaction holds. */
export async function expireJobs(db: Queryable, limit: number): Promise<Expired> {
  const [row] = await run<Expired>(db, EXPIRE, [limit, FAILURE]);
  return row as Expired;
}
