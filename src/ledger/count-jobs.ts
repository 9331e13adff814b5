import { type Priority, priorityName } from '../core/priority.ts';
import { JOB_STATES, type JobState } from '../core/states.ts';
import { type Queryable, run, statement } from './statement.ts';

// Live states count as they are now, final ones by when they were reached. One pass over the org's jobs feeds it all.
const CONSIDERED = `
  SELECT j.state, j.job_type, j.priority, j.created_at >= s.since AS is_new,
    CASE WHEN j.started_at >= s.since AND j.scheduled_at <= j.started_at
      THEN extract(epoch FROM j.started_at - j.scheduled_at)::float8 * 1000 END AS queued_ms,
    CASE WHEN j.completed_at >= s.since AND j.state IN ('completed', 'failed') AND j.attempts_started > 0
      THEN extract(epoch FROM j.completed_at - j.started_at)::float8 * 1000 END AS executed_ms,
    j.completed_at IS NULL OR j.completed_at >= s.since AS counts
  FROM millrace.jobs j
  CROSS JOIN (SELECT millrace.clock() - $2::float8 * interval '1 ms' AS since) s
  WHERE j.org_id = $1::uuid AND (j.completed_at IS NULL OR j.completed_at >= s.since OR j.created_at >= s.since)`;

const COUNT = statement(
  'count_jobs',
  `WITH considered AS MATERIALIZED (${CONSIDERED})
   SELECT 'group' AS kind, state, CASE WHEN $3::boolean THEN job_type END AS job_type,
     CASE WHEN $4::boolean THEN priority END AS priority, count(*) FILTER (WHERE counts)::float8 AS jobs,
     count(*) FILTER (WHERE is_new)::float8 AS submitted, NULL::float8[] AS queued, NULL::float8[] AS executed
   FROM considered GROUP BY state, 3, 4
   UNION ALL
   SELECT 'latency', NULL, NULL, NULL, NULL, NULL,
     percentile_cont(ARRAY[0.5, 0.9, 0.99, 1.0]) WITHIN GROUP (ORDER BY queued_ms),
     percentile_cont(ARRAY[0.5, 0.9, 0.99, 1.0]) WITHIN GROUP (ORDER BY executed_ms)
   FROM considered`,
);

type Row = {
  kind: 'group' | 'latency';
  state: JobState;
  job_type: string;
  priority: number;
  jobs: number;
  submitted: number;
  queued: number[] | null;
  executed: number[] | null;
};

type Counts = { pending: number; running: number; completed: number; failed: number };
type LatencyStats = { p50Ms: number; p90Ms: number; p99Ms: number; maxMs: number };
export type Breakdown = 'TYPE' | 'PRIORITY' | 'STATE';

export type JobCounts = {
  /** Each state by itself; the final ones within the time range. */
  states: Record<JobState, number>;
  submissionRate: number;
  completionRate: number;
  failureRate: number;
  /** Null when nothing was started or ended within the range. */
  queueLatency: LatencyStats | null;
  executionTime: LatencyStats | null;
  byType?: Record<string, Counts>;
  byPriority?: Partial<Record<Priority, Counts>>;
  byState?: Record<JobState, Counts>;
};

// A cancelled job belongs to none of the four.
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

export async function countJobs(
  db: Queryable,
  orgId: string,
  { sinceMs, breakdownBy = [] }: { sinceMs: number; breakdownBy?: readonly Breakdown[] },
): Promise<JobCounts> {
  const asked = { type: breakdownBy.includes('TYPE'), priority: breakdownBy.includes('PRIORITY') };
  const rows = await run<Row>(db, COUNT, [orgId, sinceMs, asked.type, asked.priority]);
  const groups = rows.filter((row) => row.kind === 'group');
  const latency = rows.find((row) => row.kind === 'latency');
  const states = Object.fromEntries(JOB_STATES.map((state) => [state, 0])) as Record<JobState, number>;
  for (const group of groups) states[group.state] += group.jobs;
  const perSecond = (jobs: number) => (jobs * 1_000) / sinceMs;
  return {
    states,
    submissionRate: perSecond(groups.reduce((sum, group) => sum + group.submitted, 0)),
    completionRate: perSecond(states.completed),
    failureRate: perSecond(states.failed + states.dead_letter),
    queueLatency: toLatency(latency?.queued ?? null),
    executionTime: toLatency(latency?.executed ?? null),
    ...(asked.type ? { byType: breakdown(groups, (group) => group.job_type) } : {}),
    ...(asked.priority ? { byPriority: breakdown(groups, (group) => priorityName(group.priority)) } : {}),
    ...(breakdownBy.includes('STATE') ? { byState: stateBreakdown(groups) } : {}),
  };
}

function breakdown<Name extends string>(groups: readonly Row[], nameOf: (row: Row) => Name): Record<Name, Counts> {
  const counts = {} as Record<Name, Counts>;
  for (const group of groups) {
    if (group.jobs === 0) continue;
    counts[nameOf(group)] ??= { pending: 0, running: 0, completed: 0, failed: 0 };
    const bucket = BUCKETS[group.state];
    if (bucket !== null) counts[nameOf(group)][bucket] += group.jobs;
  }
  return counts;
}

/** Every state has a line, also one that no job is in. */
function stateBreakdown(groups: readonly Row[]): Record<JobState, Counts> {
  const none = (): Counts => ({ pending: 0, running: 0, completed: 0, failed: 0 });
  const empty = Object.fromEntries(JOB_STATES.map((state) => [state, none()])) as Record<JobState, Counts>;
  return { ...empty, ...breakdown(groups, (group) => group.state) };
}

function toLatency(percentiles: number[] | null): LatencyStats | null {
  if (percentiles === null) return null;
  const [p50Ms = 0, p90Ms = 0, p99Ms = 0, maxMs = 0] = percentiles;
  return { p50Ms, p90Ms, p99Ms, maxMs };
}
