import type pg from 'pg';
import { childFailure, DEFAULT_DEPENDENCY_TYPE, type DependencyType, resolveDependent } from '../../core/dependencies.ts';
import type { JobState } from '../../core/states.ts';
import { transitions } from '../../core/transitions.ts';
import { diedText, ENTRY_COLUMNS } from '../dead-letter-entries.ts';
import { int4Array, int8Array, jsonArray, textArray } from '../driver/binary-array.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';
import { countedText, RECORD, recordedText, tookText } from '../history/record-events.ts';
import { LOGGED, type MovedJob } from '../moved-jobs.ts';
import { readyText, releasedText, timedText } from '../tokens.ts';
import { adoptDependents } from './adopt-dependents.ts';
import { arraysOf, type FailedRelease, FIRST_ORG, type JobRef, laterText, type Release, takeTurn } from './take-releases.ts';

// Why no wake-up is lost. A submission adds a new release of its job. The releaser first marks the dependencies of the job and commits.
// From then on, each of them adds a release when it ends. Only then does the releaser check the job. A check locks the waiting jobs,
// then reads the states of their dependencies in another statement, whose snapshot is newer than the locks. If two dependencies end at
// the same time, the check that gets the lock second sees both ends. A dependency that ends after the check adds a release. The
// releaser does not wait for a waiting job that another transaction holds: it adds a release for later.

/** The dependents that one turn checks. It bounds the transaction, and so how long others wait for it. */
const TURN_DEPENDENTS = 500;
/** The minimum for one release, if many share the turn. */
const LEAST_PAGE = 5;

// One page of the dependents of a job that ended, the parent that it joins and that waits for its children, and the job itself if it waits.
const FIND = statement(
  'find_dependents',
  `WITH looked_at AS MATERIALIZED (
  SELECT r.id, r.after_seq, j.org_id, j.seq, j.state >= 'completed' AS has_ended, CASE WHEN j.joins_parent THEN j.parent_seq END AS parent_seq
  FROM unnest($1::int8[], $2::uuid[], $3::int8[], $4::int8[]) AS r(id, org_id, seq, after_seq)
  JOIN millrace.jobs j ON j.org_id = r.org_id AND j.seq = r.seq
)
SELECT l.id, l.org_id, d.job_seq AS seq, true AS is_dependent FROM looked_at l CROSS JOIN LATERAL (
  SELECT d.job_seq FROM millrace.dependencies d WHERE d.org_id = l.org_id AND d.depends_on_seq = l.seq AND d.job_seq > l.after_seq
  ORDER BY d.job_seq LIMIT $5::int4) d WHERE l.has_ended
UNION ALL
SELECT l.id, l.org_id, l.parent_seq, false FROM looked_at l WHERE l.has_ended AND l.parent_seq IS NOT NULL AND l.after_seq = 0
UNION ALL
SELECT l.id, l.org_id, l.seq, false FROM looked_at l WHERE NOT l.has_ended`,
);

const LOCK = statement(
  'lock_dependents',
  `SELECT c.org_id, c.seq, l.seq IS NOT NULL AS is_locked FROM unnest($1::uuid[], $2::int8[]) AS c(org_id, seq)
CROSS JOIN LATERAL (
  SELECT FROM millrace.jobs j WHERE j.org_id = c.org_id AND j.seq = c.seq
    AND (j.state = 'pending' OR (j.state = 'running' AND j.is_held)) OFFSET 0) w
LEFT JOIN LATERAL (
  SELECT j.seq FROM millrace.jobs j WHERE j.org_id = c.org_id AND j.seq = c.seq
    AND (j.state = 'pending' OR (j.state = 'running' AND j.is_held)) FOR NO KEY UPDATE SKIP LOCKED) l ON true`,
);

// A dependency without a row was removed after its end. Its outcome is unknown, so it counts as a failure.
const READ = statement(
  'read_dependencies',
  `SELECT j.org_id, j.seq, j.state, j.dependency_type, CASE WHEN j.state = 'pending' THEN ARRAY(
    SELECT DISTINCT coalesce(t.state::text, 'failed') FROM millrace.dependencies d
    LEFT JOIN millrace.jobs t ON t.org_id = d.org_id AND t.seq = d.depends_on_seq
    WHERE d.org_id = j.org_id AND d.job_seq = j.seq) END AS dependency_states,
  j.state = 'running' AND EXISTS (
    SELECT FROM millrace.jobs k WHERE k.org_id = j.org_id AND k.parent_seq = j.seq AND k.joins_parent
      AND k.state IN ('pending', 'delayed', 'scheduled', 'running', 'retrying') OFFSET 0) AS has_live_children,
  CASE WHEN j.state = 'running' THEN (
    SELECT json_build_object('id', k.id, 'state', k.state) FROM millrace.jobs k WHERE k.org_id = j.org_id AND k.parent_seq = j.seq
      AND k.joined_by = j.lease_seq AND k.state IN ('failed', 'dead_letter', 'cancelled') ORDER BY k.seq LIMIT 1) END AS failed_child
FROM unnest($1::uuid[], $2::int8[]) AS c(org_id, seq) JOIN millrace.jobs j ON j.org_id = c.org_id AND j.seq = c.seq
WHERE j.state = 'pending' OR (j.state = 'running' AND j.is_held)`,
);

// A job that may proceed has no state here: its run time decides between scheduled and delayed. Only jobs for the log are described: most
// of the time those that failed.
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
    updated_at = millrace.clock(), is_held = false, last_error = coalesce(i.failure, j.last_error), ${countedText()},
    result = CASE WHEN i.failure IS NULL THEN j.result END, result_bytes = CASE WHEN i.failure IS NULL THEN j.result_bytes END
  FROM input i WHERE j.org_id = i.org_id AND j.seq = i.seq AND j.state = i.from_state::millrace.job_state
  RETURNING j.org_id, j.seq, j.state, j.run_at, j.lifetime_deadline, j.order_key, j.priority, j.queue, j.job_type, j.limit_id, j.lease_seq,
    j.event_count, j.attempts_started, j.round, ${ENTRY_COLUMNS}, i.from_state, i.reason, i.failure,
    CASE WHEN i.from_state = 'running' THEN ${tookText('j.started_at')} END AS took_ms,
    i.to_state IS NOT NULL AND (j.has_dependents OR j.joins_parent) AS is_awaited,
    CASE WHEN $7::bool OR j.state IN ('failed', 'dead_letter') THEN json_build_object(${LOGGED}, 'from', i.from_state, 'to', j.state,
      'reason', i.reason, 'failure', i.failure) END AS logged
), ${readyText(`moved WHERE state = 'scheduled'`)}, ${timedText(`moved WHERE state = 'delayed'`)}, forgotten AS (
  DELETE FROM millrace.waiting w USING moved m WHERE w.org_id = m.org_id AND w.seq = m.seq
), ${releasedText('moved')}, ${diedText(`moved WHERE state = 'dead_letter'`, 'reason')}, recorded AS (
  ${recordedText({
    source: 'moved',
    from: 'from_state',
    to: 'state',
    reason: 'reason',
    detail: 'failure',
    tookMs: 'took_ms',
    groupBy: ['from_state', 'state', 'reason'],
  })}
)
SELECT count(*)::int4 AS moved, coalesce(bool_or(is_awaited), false) AS cascades,
  coalesce(json_agg(logged) FILTER (WHERE logged IS NOT NULL), '[]') AS jobs FROM moved`,
);

// A release with remaining dependents moves to the end of its org's queue.
const FINISH = statement(
  'finish_releases',
  `WITH finished AS (
  DELETE FROM millrace.releases WHERE id = ANY ($1::int8[])
)
INSERT INTO millrace.releases (org_id, seq, after_seq, failures, due_at)
SELECT org_id, seq, after_seq, failures, CASE WHEN failures = 0 THEN '-infinity' ELSE ${laterText('failures')} END
FROM unnest($2::uuid[], $3::int8[], $4::int8[], $5::int4[]) AS r(org_id, seq, after_seq, failures)`,
);

type Found = JobRef & { id: number; is_dependent: boolean };

type Waiting = JobRef & {
  state: 'pending' | 'running';
  dependency_type: DependencyType | null;
  dependency_states: JobState[] | null;
  has_live_children: boolean;
  failed_child: { id: string; state: JobState } | null;
};

type Move = JobRef & { from: JobState; to: JobState | null; reason: string; failure: string | null };

export type Released = {
  consumed: number;
  /** Jobs that no longer wait. */
  moved: number;
  /** More releases are due, including ones that this call added. A failure moves down a graph by one level per call. */
  again: boolean;
  /** Other transactions held some jobs, which are checked again a little later. */
  putOff: boolean;
  failed: readonly FailedRelease[];
  next: ReleasePosition;
  /** The jobs that failed; all that moved if the caller asked for them. */
  jobs: readonly MovedJob[];
};

/** The orgs whose turn was last, for new releases and for the others. */
export type ReleasePosition = { new: string; old: string };

const START: ReleasePosition = { new: FIRST_ORG, old: FIRST_ORG };

export type ReleaseOptions = { position?: ReleasePosition | undefined; namesAll?: boolean };

/** Moves jobs whose dependencies have ended, some of each org. */
export async function releaseDependents(db: pg.Pool, limit: number, options: ReleaseOptions = {}): Promise<Released> {
  const { position = START, namesAll = false } = options;
  const fresh = await takeTurn(db, { kind: 'new', limit, afterOrg: position.new }, adoptDependents);
  const look = (client: Queryable, releases: readonly Release[]) => lookAtAll(client, releases, namesAll);
  const looked = await takeTurn(db, { kind: 'old', limit, afterOrg: position.old }, look);
  return {
    consumed: looked.taken,
    moved: looked.results.reduce((sum, each) => sum + each.moved, 0),
    again: fresh.again || looked.again || looked.results.some((each) => each.again),
    putOff: fresh.results.some((each) => each.put_off > 0) || looked.results.some((each) => each.putOff),
    failed: [...fresh.failed, ...looked.failed],
    next: { new: fresh.nextOrg, old: looked.nextOrg },
    jobs: looked.results.flatMap(({ jobs }) => jobs),
  };
}

type Looked = Pick<Released, 'moved' | 'again' | 'putOff' | 'jobs'>;

async function lookAtAll(client: Queryable, releases: readonly Release[], namesAll: boolean): Promise<Looked> {
  const page = Math.max(LEAST_PAGE, Math.floor(TURN_DEPENDENTS / releases.length));
  const ids = int8Array(releases.map((release) => release.id));
  const positions = int8Array(releases.map((release) => release.after_seq));
  const found = await run<Found>(client, FIND, [ids, ...arraysOf(releases), positions, page]);
  const { moved, cascades, jobs, held } = await moveAll(client, unique(found), namesAll);
  const rest = releases.flatMap((release) => unfinished(release, found, page));
  const failures = new Map(releases.map((release) => [release.seq, release.failures]));
  const later = held.map((job) => ({ ...job, after_seq: 0, failures: (failures.get(job.seq) ?? 0) + 1 }));
  const left = [...rest, ...later];
  await run(client, FINISH, [
    ids,
    ...arraysOf(left),
    int8Array(left.map((release) => release.after_seq)),
    int4Array(left.map((release) => release.failures)),
  ]);
  return { moved, again: cascades || rest.length > 0, putOff: held.length > 0, jobs };
}

/** The remaining part of a release whose page was full. */
function unfinished(release: Release, found: readonly Found[], page: number): Omit<Release, 'id'>[] {
  const dependents = found.filter(({ id, is_dependent }) => is_dependent && id === release.id);
  if (dependents.length < page) return [];
  const { org_id, seq } = release;
  return [{ org_id, seq, after_seq: Math.max(...dependents.map((job) => job.seq)), failures: 0 }];
}

/** All orgs share one sequence of numbers. */
const unique = (found: readonly Found[]): JobRef[] => [...new Map(found.map((job) => [job.seq, job])).values()];

type Moved = { moved: number; cascades: boolean; jobs: readonly MovedJob[] };

const NONE: Moved = { moved: 0, cascades: false, jobs: [] };

async function moveAll(client: Queryable, candidates: readonly JobRef[], namesAll: boolean): Promise<Moved & { held: JobRef[] }> {
  const tried = await run<JobRef & { is_locked: boolean }>(client, LOCK, arraysOf(candidates));
  const held = tried.filter((job) => !job.is_locked);
  const locked = tried.filter((job) => job.is_locked);
  if (locked.length === 0) return { ...NONE, held };
  const waiting = await run<Waiting>(client, READ, arraysOf(locked));
  const moves = waiting.map(decideMove).filter((move) => move !== null);
  if (moves.length === 0) return { ...NONE, held };
  const [row = NONE] = await run<Moved>(client, WRITE, [
    ...arraysOf(moves),
    textArray(moves.map((move) => move.from)),
    textArray(moves.map((move) => move.to)),
    textArray(moves.map((move) => move.reason)),
    jsonArray(moves.map((move) => move.failure)),
    namesAll,
  ]);
  return { ...row, held };
}

function decideMove(job: Waiting): Move | null {
  const { org_id, seq } = job;
  if (job.state === 'running') {
    if (job.has_live_children) return null;
    const failure = job.failed_child === null ? null : JSON.stringify(childFailure(job.failed_child));
    const transition = failure === null ? transitions.runningToCompletedSucceeded() : transitions.runningToFailedChildFailed();
    return { org_id, seq, ...transition, failure };
  }
  const resolution = resolveDependent(job.dependency_type ?? DEFAULT_DEPENDENCY_TYPE, statesOf(job));
  if (resolution.kind === 'wait') return null;
  if (resolution.kind === 'proceed') {
    const { from, reason } = transitions.pendingToScheduledDependenciesMet();
    return { org_id, seq, from, to: null, reason, failure: null };
  }
  const { from, to, reason } = resolution.transition;
  return { org_id, seq, from, to, reason, failure: JSON.stringify(resolution.failure) };
}

/** Every pending job has dependencies. If none of their rows is left, they were removed and their outcome is unknown. */
function statesOf({ dependency_states: states }: Waiting): readonly JobState[] {
  return states === null || states.length === 0 ? ['failed'] : states;
}
