import { DELIVERY_TYPE } from '../../core/delivery-policy.ts';
import { EXECUTION_TYPE } from '../../core/execution/kinds.ts';
import { MAINTENANCE_TYPE } from '../../core/maintenance.ts';
import { ATTEMPTS_BOUNDS, SECONDS_BOUNDS } from '../../core/metric-bounds.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';

/** Millrace's own jobs are not counted with those of its users. */
const OWN_TYPES = `'${DELIVERY_TYPE}', '${MAINTENANCE_TYPE}'`;

/** The most pairs of job type and queue with series of their own. All others share the series "other". */
const MAX_SERIES = 100;
const OTHER_SERIES = 'other';

/** How many bounds a value exceeds. `width_bucket` counts thresholds up to a value, so both are negated: a bound belongs to its bucket. */
const bucketOf = (value: string, bounds: readonly number[]): string =>
  `(${bounds.length} - width_bucket(-(${value}), '{${bounds
    .map((bound) => -bound)
    .reverse()
    .join(',')}}'::float8[]))::int2`;

const FAILED = `from_state = 'running' AND to_state IN ('failed', 'retrying', 'dead_letter') AND reason <> 'postponed'`;
const SCENARIO = 'scenario IS NOT NULL';

/** Which transitions each counter counts, and its third label. */
const COUNTERS = {
  submitted: [`reason = 'submitted'`, `''`],
  enqueued: [`to_state = 'scheduled'`, `''`],
  started: [`to_state = 'running'`, `''`],
  succeeded: [`to_state = 'completed'`, `''`],
  failed: [FAILED, 'error_class'],
  canceled: [`to_state = 'cancelled'`, `''`],
  deadletter: [`to_state = 'dead_letter'`, `''`],
  retried: [
    `(${FAILED} AND to_state = 'retrying') OR reason = 'manual_retry'`,
    `CASE reason WHEN 'manual_retry' THEN 'hand' ELSE 'policy' END`,
  ],
  retry_succeeded: [`to_state = 'completed' AND is_retry`, `''`],
  scenario_submitted: [`${SCENARIO} AND reason = 'submitted'`, 'scenario'],
  scenario_success: [`${SCENARIO} AND to_state = 'completed'`, 'scenario'],
  scenario_failed: [`${SCENARIO} AND ${FAILED}`, 'scenario'],
  scenario_canceled: [`${SCENARIO} AND to_state = 'cancelled'`, 'scenario'],
} as const satisfies Record<string, readonly [condition: string, detail: string]>;

export type CounterName = keyof typeof COUNTERS;

/** Which transitions each histogram observes. The values of `attempts` are numbers of attempts, and of the others seconds. */
const HISTOGRAMS = {
  wait: [`to_state = 'running' AND took IS NOT NULL`, 'bucket', 'took'],
  execution: [`from_state = 'running' AND took IS NOT NULL`, 'bucket', 'took'],
  assigned: [`to_state = 'running' AND assigned IS NOT NULL`, 'assigned_bucket', 'assigned'],
  attempts: ['attempt > 0', bucketOf('attempt', ATTEMPTS_BOUNDS), 'attempt * jobs'],
} as const satisfies Record<string, readonly [condition: string, bucket: string, total: string]>;

export type HistogramName = keyof typeof HISTOGRAMS;

/** The columns of a record that only metrics need. */
export const METERED_COLUMNS = 'reason, attempts, rounds, details, queue';

const PARTS = 'b.job_type, b.from_state, b.to_state, b.reason';
const IS_BIRTH = `b.reason = 'submitted' AND b.job_type NOT IN (${OWN_TYPES})`;
const HAS_QUEUE = `(b.queue IS NOT NULL AND b.job_type <> '${EXECUTION_TYPE}')`;
const IS_FAILURE = `b.to_state IN ('failed', 'retrying', 'dead_letter')`;
const TOOK = 'u.took_ms::float8 / 1000';
const ASSIGNED = `(u.detail ->> 'assignedMs')::float8 / 1000`;
const IS_ASSIGNED = `b.to_state = 'running' AND u.detail IS NOT NULL`;

const lookup = (condition: string): string => `LEFT JOIN LATERAL (
    SELECT j.queue, CASE WHEN b.job_type = '${EXECUTION_TYPE}' THEN j.tags ->> 'work_kind' END AS scenario
    FROM millrace.jobs j WHERE j.org_id = b.org_id AND j.seq = u.seq AND ${condition} OFFSET 0) j ON true`;

/**
 * CTEs of the statement that counts the records in `batch`. They group its events by all that a metric distinguishes. Deliveries of
 * webhooks have metrics of their own.
 *
 * A lookup of every job for its queue cost 2 us for each event, twice as much as the rest. A birth has its queue in the record, except for
 * births before migration 0041. Later events of a type whose jobs are all in one queue take that one. A job that is gone counts as
 * "other". The events of a record are grouped before all others are, by the few values that differ between them. All this costs 1.7 us a job
 * (60 000 jobs in one process, counted again and again with and without these CTEs; 4.6 with a lookup of each birth and one grouping).
 */
export const METERED = `known_series AS MATERIALIZED (SELECT job_type, queue, is_mixed FROM millrace.metric_series
), births AS MATERIALIZED (
  SELECT ${PARTS}, b.queue, NULL AS scenario, sum(cardinality(b.seqs)) AS jobs FROM batch b
  WHERE ${IS_BIRTH} AND ${HAS_QUEUE} GROUP BY ${PARTS}, 5
  UNION ALL
  SELECT ${PARTS}, j.queue, j.scenario, count(*) AS jobs FROM batch b CROSS JOIN LATERAL unnest(b.seqs) AS u(seq) ${lookup('true')}
  WHERE ${IS_BIRTH} AND NOT ${HAS_QUEUE} GROUP BY ${PARTS}, 5, 6
), single_queues AS MATERIALIZED (
  SELECT job_type, min(queue) AS queue
  FROM (SELECT job_type, queue, is_mixed FROM known_series UNION SELECT job_type, queue, false FROM births WHERE queue IS NOT NULL) p
  WHERE job_type <> '${EXECUTION_TYPE}' GROUP BY job_type HAVING min(queue) = max(queue) AND NOT bool_or(is_mixed)
), moves AS MATERIALIZED (
  SELECT b.*, CASE WHEN f.seq < ALL (b.seqs) THEN q.queue END AS known_queue
  FROM batch b CROSS JOIN millrace.metric_floor f LEFT JOIN single_queues q ON q.job_type = b.job_type
  WHERE b.reason <> 'submitted' AND b.job_type NOT IN (${OWN_TYPES})
), moved_jobs AS MATERIALIZED (
  SELECT ${PARTS}, coalesce(b.known_queue, e.queue) AS queue, e.scenario, e.error_class, e.attempt, e.is_retry, e.bucket, sum(e.took) AS took,
    e.assigned_bucket, sum(e.assigned) AS assigned, sum(e.jobs) AS jobs
  FROM moves b CROSS JOIN LATERAL (
    SELECT j.queue, j.scenario,
      CASE WHEN ${IS_FAILURE} THEN coalesce(lower(u.detail ->> 'category'), 'system') END AS error_class,
      CASE WHEN b.to_state >= 'completed' THEN u.attempt END AS attempt,
      b.to_state = 'completed' AND (u.attempt > 1 OR u.round > 0) AS is_retry,
      ${bucketOf(TOOK, SECONDS_BOUNDS)} AS bucket, sum(${TOOK}) AS took,
      CASE WHEN ${IS_ASSIGNED} THEN ${bucketOf(ASSIGNED, SECONDS_BOUNDS)} END AS assigned_bucket,
      sum(CASE WHEN ${IS_ASSIGNED} THEN ${ASSIGNED} END) AS assigned, count(*) AS jobs
    FROM unnest(b.seqs, b.attempts, b.rounds, b.took_ms, b.details) AS u(seq, attempt, round, took_ms, detail)
    ${lookup('b.known_queue IS NULL')}
    GROUP BY 1, 2, 3, 4, 5, 6, 8
  ) e
  GROUP BY ${PARTS}, 5, 6, 7, 8, 9, 10, 12
), meters AS MATERIALIZED (
  SELECT * FROM moved_jobs UNION ALL
  SELECT job_type, from_state, to_state, reason, queue, scenario, NULL, NULL, false, NULL, NULL, NULL, NULL, jobs FROM births
), pairs AS MATERIALIZED (SELECT DISTINCT job_type, queue FROM meters WHERE queue IS NOT NULL
), new_series AS (
  INSERT INTO millrace.metric_series AS s (job_type, queue, is_mixed)
  SELECT m.job_type, m.queue, EXISTS (SELECT FROM pairs p WHERE p.job_type = m.job_type AND p.queue <> m.queue) FROM pairs m
  WHERE NOT EXISTS (SELECT FROM known_series k WHERE k.job_type = m.job_type AND k.queue = m.queue)
  LIMIT greatest(0, ${MAX_SERIES} - (SELECT count(*) FROM known_series))
  ON CONFLICT (job_type, queue) DO UPDATE SET is_mixed = s.is_mixed OR excluded.is_mixed RETURNING job_type, queue
), mixed AS (
  UPDATE millrace.metric_series s SET is_mixed = true WHERE NOT s.is_mixed AND EXISTS (SELECT FROM pairs p WHERE p.job_type = s.job_type
    AND p.queue <> s.queue AND NOT EXISTS (SELECT FROM known_series k WHERE k.job_type = p.job_type AND k.queue = p.queue))
), named AS MATERIALIZED (SELECT job_type, queue FROM known_series UNION ALL SELECT job_type, queue FROM new_series
), labelled AS MATERIALIZED (
  SELECT coalesce(n.job_type, '${OTHER_SERIES}') AS label_type, coalesce(n.queue, '${OTHER_SERIES}') AS label_queue, m.*
  FROM meters m LEFT JOIN named n ON n.job_type = m.job_type AND n.queue = m.queue
), metered AS (
  INSERT INTO millrace.metric_counts AS c (name, job_type, queue, detail, n)
  SELECT name, label_type, label_queue, detail, sum(jobs) FROM (${Object.entries(COUNTERS)
    .map(
      ([name, [condition, detail]]) =>
        `SELECT '${name}' AS name, label_type, label_queue, ${detail} AS detail, jobs FROM labelled WHERE ${condition}`,
    )
    .join(' UNION ALL ')}) t GROUP BY 1, 2, 3, 4
  ON CONFLICT (name, job_type, queue, detail) DO UPDATE SET n = c.n + excluded.n
), observed AS (
  INSERT INTO millrace.metric_histograms AS h (name, job_type, queue, bucket, n, total)
  SELECT name, label_type, label_queue, bucket, sum(jobs), sum(total) FROM (${Object.entries(HISTOGRAMS)
    .map(
      ([name, [condition, bucket, total]]) =>
        `SELECT '${name}' AS name, label_type, label_queue, ${bucket} AS bucket, jobs, ${total} AS total FROM labelled WHERE ${condition}`,
    )
    .join(' UNION ALL ')}) t GROUP BY 1, 2, 3, 4
  ON CONFLICT (name, job_type, queue, bucket) DO UPDATE SET n = h.n + excluded.n, total = h.total + excluded.total
)`;

const READ_COUNTS = statement('read_metric_counts', 'SELECT name, job_type, queue, detail, n FROM millrace.metric_counts');

const READ_HISTOGRAMS = statement(
  'read_metric_histograms',
  'SELECT name, job_type, queue, bucket, n, total FROM millrace.metric_histograms ORDER BY name, job_type, queue, bucket',
);

export type CountRow = { name: CounterName; job_type: string; queue: string; detail: string; n: number };
export type HistogramRow = { name: HistogramName; job_type: string; queue: string; bucket: number; n: number; total: number };

export type MetricCounts = { readonly counts: readonly CountRow[]; readonly histograms: readonly HistogramRow[] };

/** What all processes together have counted. Counts and histograms are at most one round of the rollup writer apart. */
export async function readMetricCounts(db: Queryable): Promise<MetricCounts> {
  return { counts: await run<CountRow>(db, READ_COUNTS), histograms: await run<HistogramRow>(db, READ_HISTOGRAMS) };
}
