import { ATTEMPTS_BOUNDS, SECONDS_BOUNDS } from '../../core/metric-bounds.ts';
import type { CounterName, CountRow, HistogramName, HistogramRow } from '../../ledger/history/metric-counts.ts';
import { definitionOf, LEDGER_METRICS, type LedgerMetricName } from '../../telemetry/catalogue.ts';
import type { Labels, Metrics, Sample } from '../../telemetry/metrics.ts';
import type { LedgerGauge, LedgerMeasures } from './measure-ledger.ts';

type Read = (measures: LedgerMeasures) => readonly Sample[];

/** Shows what the gauge reads as metrics. Reads once for each scrape. */
export function exposeLedger(metrics: Metrics, gauge: LedgerGauge): void {
  let measures: LedgerMeasures | null = null;
  metrics.onScrape(async () => {
    measures = await gauge.measure();
  });
  for (const name of Object.keys(LEDGER_METRICS) as LedgerMetricName[]) {
    const read = name === 'ledger_up' ? null : READS[name];
    const isUp = () => [{ labels: {}, value: measures === null ? 0 : 1 }];
    metrics.collected(definitionOf(name), () => (read === null ? isUp() : measures === null ? [] : read(measures)));
  }
}

/** The sum of a counter over all its rows. It exists from the start, so that a rate includes the first event. */
const totalOf =
  (name: CounterName): Read =>
  ({ counts }) => [{ labels: {}, value: counts.reduce((sum, row) => (row.name === name ? sum + row.n : sum), 0) }];

/** A counter by labels. Rows that have the same ones are added up: a type may be called "other". */
const counterBy =
  (name: CounterName, labelsOf: (row: CountRow) => Labels): Read =>
  ({ counts }) => {
    const rows = counts.filter((row) => row.name === name);
    return grouped(rows, labelsOf).map(({ labels, rows: same }) => ({ labels, value: same.reduce((sum, { n }) => sum + n, 0) }));
  };

const byJob = ({ job_type, queue }: { job_type: string; queue: string }): Labels => ({ job_type, queue });

const histogramBy =
  (name: HistogramName, bounds: readonly number[], labelsOf: (row: HistogramRow) => Labels): Read =>
  ({ histograms }) =>
    grouped(
      histograms.filter((row) => row.name === name),
      labelsOf,
    ).flatMap(({ labels, rows }) => histogramLines(rows, bounds, labels));

/** A histogram without labels exists from the start. */
const histogramOf =
  (name: HistogramName): Read =>
  ({ histograms }) =>
    histogramLines(
      histograms.filter((row) => row.name === name),
      SECONDS_BOUNDS,
      {},
    );

function histogramLines(rows: readonly HistogramRow[], bounds: readonly number[], labels: Labels): Sample[] {
  const counts = new Array<number>(bounds.length + 1).fill(0);
  for (const { bucket, n } of rows) counts[bucket] = (counts[bucket] ?? 0) + n;
  let count = 0;
  const buckets = counts.map((n, index) => {
    count += n;
    return { suffix: '_bucket', labels: { ...labels, le: String(bounds[index] ?? '+Inf') }, value: count };
  });
  const total = rows.reduce((sum, row) => sum + row.total, 0);
  return [...buckets, { suffix: '_sum', labels, value: total }, { suffix: '_count', labels, value: count }];
}

function grouped<Row>(rows: readonly Row[], labelsOf: (row: Row) => Labels): { labels: Labels; rows: Row[] }[] {
  const groups = new Map<string, { labels: Labels; rows: Row[] }>();
  for (const row of rows) {
    const labels = labelsOf(row);
    const key = JSON.stringify(Object.values(labels));
    const group = groups.get(key) ?? { labels, rows: [] };
    group.rows.push(row);
    groups.set(key, group);
  }
  return [...groups.values()];
}

const OUTCOMES = { scenario_success: 'SUCCESS', scenario_failed: 'FAILED', scenario_canceled: 'CANCELED' } as const;

const scenarios: Read = (measures) =>
  Object.entries(OUTCOMES).flatMap(([name, outcome]) =>
    counterBy(name as keyof typeof OUTCOMES, ({ detail }) => ({ scenario: detail, outcome }))(measures),
  );

const one = (value: number): readonly Sample[] => [{ labels: {}, value }];

const READS: Record<Exclude<LedgerMetricName, 'ledger_up'>, Read> = {
  jobs_submitted_total: totalOf('submitted'),
  jobs_queued_total: totalOf('enqueued'),
  jobs_running_total: totalOf('started'),
  jobs_canceled_total: totalOf('canceled'),
  jobs_enqueued_total: counterBy('enqueued', byJob),
  jobs_started_total: counterBy('started', byJob),
  jobs_succeeded_total: counterBy('succeeded', byJob),
  jobs_failed_total: counterBy('failed', (row) => ({ ...byJob(row), error_class: row.detail })),
  deadletter_total: counterBy('deadletter', byJob),
  jobs_retried_total: counterBy('retried', ({ detail }) => ({ by: detail })),
  jobs_retry_succeeded_total: totalOf('retry_succeeded'),
  job_scenarios_submitted_total: counterBy('scenario_submitted', ({ detail }) => ({ scenario: detail })),
  job_scenarios_total: scenarios,
  jobs_running: ({ running }) => one(running),
  job_queue_depth: ({ queues }) => one(queues.reduce((sum, { depth }) => sum + depth, 0)),
  queue_depth: ({ queues }) => queues.map(({ queue, depth }) => ({ labels: { queue }, value: depth })),
  queue_oldest_job_age_seconds: ({ queues }) => queues.map(({ queue, ageSeconds }) => ({ labels: { queue }, value: ageSeconds })),
  workers_alive: ({ workers }) => (workers === null ? [] : one(workers)),
  job_queue_wait_seconds: histogramOf('wait'),
  job_assigned_seconds: histogramOf('assigned'),
  job_execution_seconds: histogramOf('execution'),
  jobs_duration_seconds: histogramBy('execution', SECONDS_BOUNDS, byJob),
  jobs_attempts_histogram: histogramBy('attempts', ATTEMPTS_BOUNDS, ({ job_type }) => ({ job_type })),
};
