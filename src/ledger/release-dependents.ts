import type pg from 'pg';
import { DEFAULT_DEPENDENCY_TYPE, type DependencyType, resolveDependent } from '../core/dependencies.ts';
import type { JobState } from '../core/states.ts';
import { transitions } from '../core/transitions.ts';
import { int8Array, jsonArray, textArray, uuidArray } from './binary-array.ts';
import { inTransaction } from './database.ts';
import { countedText, RECORD, recordedText, tookText } from './record-events.ts';
import { type Queryable, run, statement } from './statement.ts';

// Why no wake-up is lost. A job that ends while others wait for it leaves a release with its end. Whoever takes the release
// first locks the jobs that wait, then reads the states of everything they wait for in a statement of its own, whose
// snapshot is younger than the locks. So of two dependencies that end at the same time, the release that comes second to
// the lock sees both ends; and one that ends after that look leaves a release of its own.

const CHUNK = 500;

type JobRef = { org_id: string; seq: number };

// As an array, which is made once: a subselect with a limit may be asked again for every row, and each time finds others.
const TAKE = statement(
  'take_releases',
  `DELETE FROM millrace.releases WHERE id = ANY (ARRAY(
  SELECT id FROM millrace.releases ORDER BY id LIMIT $1::int4 FOR UPDATE SKIP LOCKED)) RETURNING org_id, seq`,
);

// Whoever depends on a job that ended, the held parent it joins, and the job itself if it became held.
const FIND = statement(
  'find_dependents',
  `WITH ended AS MATERIALIZED (
  SELECT DISTINCT org_id, seq FROM unnest($1::uuid[], $2::int8[]) AS e(org_id, seq)
), candidates AS MATERIALIZED (
  SELECT d.org_id, d.job_seq AS seq FROM ended e
  JOIN millrace.dependencies d ON d.org_id = e.org_id AND d.depends_on_seq = e.seq
  UNION
  SELECT j.org_id, j.parent_seq FROM ended e JOIN millrace.jobs j ON j.org_id = e.org_id AND j.seq = e.seq WHERE j.joins_parent
  UNION
  SELECT org_id, seq FROM ended
)
SELECT j.org_id, j.seq FROM candidates c JOIN millrace.jobs j ON j.org_id = c.org_id AND j.seq = c.seq
WHERE j.state = 'pending' OR (j.state = 'running' AND j.is_held) ORDER BY j.seq`,
);

const LOCK = statement(
  'lock_dependents',
  `SELECT j.org_id, j.seq, j.state FROM unnest($1::uuid[], $2::int8[]) AS c(org_id, seq)
JOIN millrace.jobs j ON j.org_id = c.org_id AND j.seq = c.seq
WHERE j.state = 'pending' OR (j.state = 'running' AND j.is_held) ORDER BY j.seq FOR UPDATE OF j`,
);

const READ = statement(
  'read_dependencies',
  `SELECT j.org_id, j.seq, j.state, j.dependency_type, CASE WHEN j.state = 'pending' THEN ARRAY(
    SELECT DISTINCT t.state::text FROM millrace.dependencies d
    JOIN millrace.jobs t ON t.org_id = d.org_id AND t.seq = d.depends_on_seq
    WHERE d.org_id = j.org_id AND d.job_seq = j.seq) END AS dependency_states,
  j.state = 'running' AND EXISTS (
    SELECT FROM millrace.jobs k WHERE k.org_id = j.org_id AND k.parent_seq = j.seq AND k.joins_parent
      AND k.state IN ('pending', 'delayed', 'scheduled', 'running', 'retrying') OFFSET 0) AS has_live_children
FROM unnest($1::uuid[], $2::int8[]) AS c(org_id, seq) JOIN millrace.jobs j ON j.org_id = c.org_id AND j.seq = c.seq`,
);

// A job that may proceed comes without a state: its own time decides between scheduled and delayed.
const WRITE = statement(
  'release_dependents',
  `WITH ${RECORD}, input AS MATERIALIZED (
  SELECT * FROM unnest($1::uuid[], $2::int8[], $3::text[], $4::text[], $5::text[], $6::json[])
    AS i(org_id, seq, from_state, to_state, reason, failure)
), moved AS (
  UPDATE millrace.jobs j SET
    state = (CASE WHEN i.to_state IS NOT NULL THEN i.to_state WHEN j.run_at > millrace.clock() THEN 'delayed'
                  ELSE 'scheduled' END)::millrace.job_state,
    scheduled_at = CASE WHEN i.to_state IS NULL AND j.run_at <= millrace.clock() THEN millrace.clock() ELSE j.scheduled_at END,
    completed_at = CASE WHEN i.to_state IS NOT NULL THEN millrace.clock() END,
    updated_at = millrace.clock(), is_held = false, last_error = coalesce(i.failure, j.last_error), ${countedText()}
  FROM input i WHERE j.org_id = i.org_id AND j.seq = i.seq AND j.state = i.from_state::millrace.job_state
  RETURNING j.org_id, j.seq, j.state, j.run_at, j.lifetime_deadline, j.order_key, j.priority, j.queue, j.job_type, j.lease_seq,
    j.event_count, j.attempts_started, j.round, i.from_state, i.reason, i.failure,
    CASE WHEN i.from_state = 'running' THEN ${tookText('j.started_at')} END AS took_ms,
    i.to_state IS NOT NULL AND (j.has_dependents OR j.joins_parent) AS is_awaited
), made_ready AS (
  INSERT INTO millrace.ready (order_key, dies_at, org_id, priority, queue, job_type, seqs)
  SELECT order_key, lifetime_deadline, org_id, priority, queue, job_type, ARRAY[seq] FROM moved WHERE state = 'scheduled'
), timed AS (
  INSERT INTO millrace.timers (run_at, dies_at, seq, org_id)
  SELECT run_at, lifetime_deadline, seq, org_id FROM moved WHERE state = 'delayed'
), forgotten AS (
  DELETE FROM millrace.waiting w USING moved m WHERE w.org_id = m.org_id AND w.seq = m.seq
), released AS (
  INSERT INTO millrace.releases (org_id, seq) SELECT org_id, seq FROM moved WHERE is_awaited
), recorded AS (
  ${recordedText({
    ...{ source: 'moved', from: 'from_state', to: 'state', reason: 'reason', detail: 'failure', tookMs: 'took_ms' },
    groupBy: ['from_state', 'state', 'reason'],
  })}
)
SELECT coalesce(bool_or(is_awaited), false) AS cascades FROM moved`,
);

type Waiting = JobRef & {
  state: 'pending' | 'running';
  dependency_type: DependencyType | null;
  dependency_states: JobState[] | null;
  has_live_children: boolean;
};

type Move = JobRef & { from: JobState; to: JobState | null; reason: string; failure: string | null };

/**
 * Wakes the jobs that waited for jobs which ended. `again` says that more releases wait, also those this call made:
 * a failure travels down a graph one level a call.
 */
export async function releaseDependents(db: pg.Pool, limit: number): Promise<{ consumed: number; again: boolean }> {
  return inTransaction(db, async (client) => {
    const ended = await run<JobRef>(client, TAKE, [limit]);
    if (ended.length === 0) return { consumed: 0, again: false };
    const found = await run<JobRef>(client, FIND, arraysOf(ended));
    let again = ended.length >= limit;
    for (let start = 0; start < found.length; start += CHUNK) {
      const cascades = await moveAll(client, found.slice(start, start + CHUNK));
      again ||= cascades;
    }
    return { consumed: ended.length, again };
  });
}

async function moveAll(client: Queryable, candidates: readonly JobRef[]): Promise<boolean> {
  const locked = await run<JobRef>(client, LOCK, arraysOf(candidates));
  if (locked.length === 0) return false;
  const waiting = await run<Waiting>(client, READ, arraysOf(locked));
  const moves = waiting.map(decideMove).filter((move) => move !== null);
  if (moves.length === 0) return false;
  const [row] = await run<{ cascades: boolean }>(client, WRITE, [
    ...arraysOf(moves),
    textArray(moves.map((move) => move.from)),
    textArray(moves.map((move) => move.to)),
    textArray(moves.map((move) => move.reason)),
    jsonArray(moves.map((move) => move.failure)),
  ]);
  return row?.cascades === true;
}

function decideMove(job: Waiting): Move | null {
  const { org_id, seq } = job;
  if (job.state === 'running') {
    const { from, to, reason } = transitions.runningToCompletedSucceeded();
    return job.has_live_children ? null : { org_id, seq, from, to, reason, failure: null };
  }
  const resolution = resolveDependent(job.dependency_type ?? DEFAULT_DEPENDENCY_TYPE, job.dependency_states ?? []);
  if (resolution.kind === 'wait') return null;
  if (resolution.kind === 'proceed') {
    const { from, reason } = transitions.pendingToScheduledDependenciesMet();
    return { org_id, seq, from, to: null, reason, failure: null };
  }
  const { from, to, reason } = resolution.transition;
  return { org_id, seq, from, to, reason, failure: JSON.stringify(resolution.failure) };
}

const arraysOf = (jobs: readonly JobRef[]): [Buffer, Buffer] => [
  uuidArray(jobs.map((job) => job.org_id)),
  int8Array(jobs.map((job) => job.seq)),
];
