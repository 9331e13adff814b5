import { dictionary } from '../../core/dictionary.ts';
import { type Priority, priorityName } from '../../core/priority.ts';
import { JOB_STATES, type JobState } from '../../core/states.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';
import { unreadRecords } from '../history/positions.ts';
import { bucketMiddleMs, CELLS, COUNTED, COUNTED_COLUMNS, LATENCIES, LIVE, MOVED } from '../history/rollups.ts';

/** How many records after the rollup writer's position are read. There are more only if the rollup writer is far behind. */
const TAIL_RECORDS = 20_000;
/** How many tokens of each kind are counted one by one. `ready` has the tokens of all orgs, the other tables those of one. */
const MAX_TOKENS = 5_000;
const MAX_READY = 10_000;

const next = (width: number, at: string) => `to_timestamp(ceil(date_part('epoch', ${at}) / ${width}) * ${width})`;

/** The rows of a rollup table that make up the range. */
const inRange = (table: string, columns: string) => `
  SELECT ${columns} FROM ranges g CROSS JOIN LATERAL (SELECT * FROM millrace.${table} r WHERE r.org_id = $1::uuid
    AND r.width = g.width AND r.started_at >= g.low AND r.started_at < g.high OFFSET 0) r`;

// One snapshot reads the rollups up to the rollup writer's position and the records after it. Live jobs are counted by their tokens, each
// checked against the job's row. If there are too many tokens of one kind, the totals of the rollup writer are used.
const COUNT = statement(
  'count_jobs',
  `WITH since AS MATERIALIZED (
  SELECT s.second, m.minute, h.hour, ${next(86_400, 'h.hour')} AS day
  FROM (SELECT date_trunc('second', millrace.clock() - $2::float8 * interval '1 ms') AS second) s
  CROSS JOIN LATERAL (SELECT ${next(60, 's.second')} AS minute) m
  CROSS JOIN LATERAL (SELECT ${next(3_600, 'm.minute')} AS hour) h
), ranges AS MATERIALIZED (
  SELECT 1 AS width, second AS low, minute AS high FROM since UNION ALL SELECT 60, minute, hour FROM since
  UNION ALL SELECT 3600, hour, day FROM since UNION ALL SELECT 86400, day, 'infinity' FROM since
), batch AS MATERIALIZED (
  SELECT ${COUNTED_COLUMNS} FROM (SELECT * FROM millrace.records
    WHERE ${unreadRecords('rollups', 'records')} ORDER BY txid, id LIMIT ${TAIL_RECORDS}) t
  WHERE t.org_id = $1::uuid
), cells AS MATERIALIZED (${CELLS}
), counted AS (
${inRange('rollups', 'r.job_type, r.priority, r.submitted, r.completed, r.failed, r.dead_letter, r.cancelled')}
  UNION ALL
  SELECT job_type, priority, submitted, completed, failed, dead_letter, cancelled
  FROM (SELECT job_type, priority, ${COUNTED} FROM cells WHERE second >= (SELECT second FROM since) GROUP BY 1, 2) c
), latencies AS (
${inRange('rollup_latencies', 'r.kind, r.bucket, r.attempts, r.max_ms')}
  UNION ALL SELECT kind, bucket, attempts, max_ms FROM (${LATENCIES}) l WHERE second >= (SELECT second FROM since)
), tokens AS MATERIALIZED (
  SELECT seq FROM (SELECT org_id, seq FROM millrace.ready_jobs LIMIT ${MAX_READY}) r WHERE org_id = $1::uuid
  UNION (SELECT seq FROM millrace.timers WHERE org_id = $1::uuid LIMIT ${MAX_TOKENS})
  UNION (SELECT seq FROM millrace.waiting WHERE org_id = $1::uuid LIMIT ${MAX_TOKENS})
  UNION SELECT unnest(seqs) FROM millrace.claims WHERE org_id = $1::uuid
), alive AS MATERIALIZED (
  SELECT j.state, j.job_type, j.priority
  FROM tokens t CROSS JOIN LATERAL (SELECT * FROM millrace.jobs j WHERE j.org_id = $1::uuid AND j.seq = t.seq OFFSET 0) j
  WHERE j.completed_at IS NULL
), too_many AS (
  SELECT unnest(ARRAY['scheduled']) AS state WHERE EXISTS (SELECT FROM millrace.ready_jobs OFFSET ${MAX_READY - 1})
  UNION SELECT unnest(ARRAY['delayed', 'retrying'])
    WHERE EXISTS (SELECT FROM millrace.timers WHERE org_id = $1::uuid OFFSET ${MAX_TOKENS - 1})
  UNION SELECT unnest(ARRAY['pending', 'running'])
    WHERE EXISTS (SELECT FROM millrace.waiting WHERE org_id = $1::uuid OFFSET ${MAX_TOKENS - 1})
), totals AS (
  SELECT state, sum(jobs) AS jobs FROM (
    SELECT state, jobs FROM millrace.live_totals WHERE org_id = $1::uuid
    UNION ALL SELECT state, jobs FROM (${MOVED}) m WHERE state IN ${LIVE}) t GROUP BY state
)
SELECT 'ended' AS kind, NULL AS state, job_type AS name, priority::int4 AS number, sum(submitted)::float8 AS submitted,
  sum(completed)::float8 AS completed, sum(failed)::float8 AS failed, sum(dead_letter)::float8 AS dead_letter,
  sum(cancelled)::float8 AS cancelled, NULL::float8 AS jobs, NULL::float8 AS max_ms
FROM counted GROUP BY job_type, priority
UNION ALL SELECT 'latency', NULL, kind, bucket, NULL, NULL, NULL, NULL, NULL, sum(attempts)::float8, max(max_ms)
  FROM latencies GROUP BY kind, bucket
UNION ALL SELECT 'live', state::text, job_type, priority, NULL, NULL, NULL, NULL, NULL, count(*)::float8, NULL
  FROM alive GROUP BY state, job_type, priority
UNION ALL SELECT 'total', m.state, NULL, NULL, NULL, NULL, NULL, NULL, NULL, coalesce(t.jobs, 0)::float8, NULL
  FROM too_many m LEFT JOIN totals t ON t.state = m.state::millrace.job_state`,
);

type Row =
  | ({ kind: 'ended'; name: string; number: number; submitted: number } & Record<Ended, number>)
  | { kind: 'latency'; name: 'queue' | 'execution'; number: number; jobs: number; max_ms: number }
  | { kind: 'live'; state: JobState; name: string; number: number; jobs: number }
  | { kind: 'total'; state: JobState; jobs: number };

const ENDED = ['completed', 'failed', 'dead_letter', 'cancelled'] as const;
type Ended = (typeof ENDED)[number];

/** Jobs of one state, type and priority. */
type Group = { state: JobState; type: string; priority: number; jobs: number };

type Counts = { pending: number; running: number; completed: number; failed: number };
type LatencyStats = { p50Ms: number; p90Ms: number; p99Ms: number; maxMs: number };
export const BREAKDOWNS = ['TYPE', 'PRIORITY', 'STATE'] as const;
export type Breakdown = (typeof BREAKDOWNS)[number];

/** Counts, rates and latencies of the jobs of an org. */
export type JobCounts = {
  /** The number of jobs in each state. Jobs in a final state count if they ended within the time range. */
  states: Record<JobState, number>;
  /** Jobs submitted per second within the range. */
  submissionRate: number;
  /** Jobs completed per second within the range. */
  completionRate: number;
  /** Jobs failed per second within the range. */
  failureRate: number;
  /** Null if no attempt started (or, for `executionTime`, ended) within the range. */
  queueLatency: LatencyStats | null;
  /** How long attempts ran. */
  executionTime: LatencyStats | null;
  /** The counts of each job type, if asked for. */
  byType?: Record<string, Counts>;
  /** The counts of each priority, if asked for. */
  byPriority?: Partial<Record<Priority, Counts>>;
  /** The counts of each state, if asked for. */
  byState?: Record<JobState, Counts>;
};

// A cancelled job does not count in any of the four.
const BUCKETS: Record<JobState, keyof Counts | null> = {
  pending: 'pending',
  delayed: 'pending',
  scheduled: 'pending',
  retrying: 'pending',
  running: 'running',
  completed: 'completed',
  failed: 'failed',
  dead_letter: 'failed',
  cancelled: null,
};

/** Returns counts, rates and latencies of an org. The cost depends neither on the number of jobs nor on the range. */
export async function countJobs(
  db: Queryable,
  orgId: string,
  { sinceMs, breakdownBy = [] }: { sinceMs: number; breakdownBy?: readonly Breakdown[] },
): Promise<JobCounts> {
  const rows = await run<Row>(db, COUNT, [orgId, sinceMs]);
  const { groups, states } = grouped(rows);
  const perSecond = (jobs: number) => (jobs * 1_000) / sinceMs;
  const submitted = rows.reduce((sum, row) => sum + (row.kind === 'ended' ? row.submitted : 0), 0);
  return {
    states,
    submissionRate: perSecond(submitted),
    completionRate: perSecond(states.completed),
    failureRate: perSecond(states.failed + states.dead_letter),
    queueLatency: latencyOf(rows, 'queue'),
    executionTime: latencyOf(rows, 'execution'),
    ...(breakdownBy.includes('TYPE') ? { byType: breakdown(groups, (group) => group.type) } : {}),
    ...(breakdownBy.includes('PRIORITY') ? { byPriority: breakdown(groups, (group) => priorityName(group.priority)) } : {}),
    ...(breakdownBy.includes('STATE') ? { byState: stateBreakdown(states) } : {}),
  };
}

function grouped(rows: readonly Row[]): { groups: Group[]; states: Record<JobState, number> } {
  const groups: Group[] = [];
  for (const row of rows) {
    if (row.kind === 'live') {
      groups.push({ state: row.state, type: row.name, priority: row.number, jobs: row.jobs });
    } else if (row.kind === 'ended') {
      for (const state of ENDED) groups.push({ state, type: row.name, priority: row.number, jobs: row[state] });
    }
  }
  const states = Object.fromEntries(JOB_STATES.map((state) => [state, 0])) as Record<JobState, number>;
  for (const group of groups) states[group.state] += group.jobs;
  for (const row of rows) if (row.kind === 'total') scale({ groups, states }, row.state, row.jobs);
  return { groups, states };
}

/** Scales a sample of the jobs in a state up to the total. */
function scale({ groups, states }: { groups: Group[]; states: Record<JobState, number> }, state: JobState, total: number): void {
  const counted = states[state];
  if (total <= counted) return;
  for (const group of groups) {
    if (group.state === state) group.jobs = Math.round((group.jobs * total) / counted);
  }
  states[state] = total;
}

function breakdown<Name extends string>(groups: readonly Group[], nameOf: (group: Group) => Name): Record<Name, Counts> {
  const counts = new Map<Name, Counts>();
  for (const group of groups) {
    if (group.jobs === 0) continue;
    const name = nameOf(group);
    const line = counts.get(name) ?? zero();
    counts.set(name, line);
    const bucket = BUCKETS[group.state];
    if (bucket !== null) line[bucket] += group.jobs;
  }
  return dictionary(counts);
}

const zero = (): Counts => ({ pending: 0, running: 0, completed: 0, failed: 0 });

/** Every state has a line, even if no job is in it. */
function stateBreakdown(states: Record<JobState, number>): Record<JobState, Counts> {
  const line = (state: JobState): Counts => {
    const bucket = BUCKETS[state];
    return bucket === null ? zero() : { ...zero(), [bucket]: states[state] };
  };
  return Object.fromEntries(JOB_STATES.map((state) => [state, line(state)])) as Record<JobState, Counts>;
}

/** Percentiles from the buckets, within 2 %. The maximum is exact. */
function latencyOf(rows: readonly Row[], name: 'queue' | 'execution'): LatencyStats | null {
  const buckets = rows.flatMap((row) => (row.kind === 'latency' && row.name === name ? [row] : [])).toSorted((a, b) => a.number - b.number);
  const total = buckets.reduce((sum, bucket) => sum + bucket.jobs, 0);
  if (total === 0) return null;
  const maxMs = Math.max(...buckets.map((bucket) => bucket.max_ms));
  const at = (share: number): number => {
    let seen = 0;
    const found = buckets.find((bucket) => {
      seen += bucket.jobs;
      return seen >= share * total;
    });
    return found === undefined ? maxMs : Math.min(bucketMiddleMs(found.number), found.max_ms);
  };
  return { p50Ms: at(0.5), p90Ms: at(0.9), p99Ms: at(0.99), maxMs };
}
