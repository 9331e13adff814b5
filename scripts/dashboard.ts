/**
 * The dashboard. It names metrics only through `metric()`, which refuses a name that the catalogue does not have. Metrics of jobs are the same in
 * every process, so queries take the maximum over the instances; the others are added up.
 */
import { metric } from './metric-series.ts';

const sum = (by: string, expression: string): string => `sum${by === '' ? '' : ` by (${by})`} (${expression})`;
const rate = (series: string, range = '$__rate_interval'): string => `rate(${series}[${range}])`;
/** One value for each series, from whichever instance shows most of it. */
const shared = (expression: string): string => `max without (instance, pod) (${expression})`;
const quantile = (share: number, by: string, expression: string): string => `histogram_quantile(${share}, ${sum(by, expression)})`;

type Panel = { title: string; unit: string; description: string; lines: readonly [expression: string, legend: string][] };

const PANELS: readonly Panel[] = [
  {
    title: 'Jobs per second',
    unit: 'ops',
    description: 'Submissions, starts and ends of all processes.',
    lines: [
      [shared(rate(metric('jobs_submitted_total'))), 'submitted'],
      [shared(rate(metric('jobs_running_total'))), 'started'],
      [sum('', shared(rate(metric('jobs_succeeded_total')))), 'succeeded'],
      [sum('', shared(rate(metric('jobs_failed_total')))), 'failed attempts'],
      [shared(rate(metric('jobs_canceled_total'))), 'canceled'],
    ],
  },
  {
    title: 'Jobs that wait, by queue',
    unit: 'short',
    description: 'Jobs that may start and wait for a worker.',
    lines: [[shared(metric('queue_depth')), '{{queue}}']],
  },
  {
    title: 'Age of the oldest job that waits',
    unit: 's',
    description: 'A rising line means that workers do not keep up, or that the queue is paused.',
    lines: [[shared(metric('queue_oldest_job_age_seconds')), '{{queue}}']],
  },
  {
    title: 'Time in the queue',
    unit: 's',
    description: 'From the entry into the queue to the start of an attempt.',
    lines: [
      [quantile(0.5, 'le', shared(rate(metric('job_queue_wait_seconds')))), 'p50'],
      [quantile(0.95, 'le', shared(rate(metric('job_queue_wait_seconds')))), 'p95'],
      [quantile(0.99, 'le', shared(rate(metric('job_queue_wait_seconds')))), 'p99'],
    ],
  },
  {
    title: 'Execution p95, by type',
    unit: 's',
    description: 'The duration of attempts.',
    lines: [[quantile(0.95, 'le, job_type', shared(rate(metric('jobs_duration_seconds')))), '{{job_type}}']],
  },
  {
    title: 'Failed attempts, by type and class',
    unit: 'ops',
    description: 'Attempts that failed, also those that are retried.',
    lines: [[sum('job_type, error_class', shared(rate(metric('jobs_failed_total')))), '{{job_type}} {{error_class}}']],
  },
  {
    title: 'Dead letter',
    unit: 'ops',
    description: 'Jobs that used up their attempts or their lifetime.',
    lines: [[sum('job_type', shared(rate(metric('deadletter_total')))), '{{job_type}}']],
  },
  {
    title: 'Retries, and jobs that succeeded after one',
    unit: 'ops',
    description: 'By hand or by the policy of the job.',
    lines: [
      [shared(rate(metric('jobs_retried_total'))), 'retried by {{by}}'],
      [shared(rate(metric('jobs_retry_succeeded_total'))), 'succeeded after a retry'],
    ],
  },
  {
    title: 'Workers alive, and jobs that run',
    unit: 'short',
    description: 'Workers of all processes with a recent heartbeat.',
    lines: [
      [shared(metric('workers_alive')), 'workers'],
      [shared(metric('jobs_running')), 'jobs'],
    ],
  },
  {
    title: 'Requests per second, by status',
    unit: 'reqps',
    description: 'Requests of every API.',
    lines: [[sum('status', rate('http_request_duration_seconds_count')), '{{status}}']],
  },
  {
    title: 'Request p99, by route',
    unit: 's',
    description: 'The ten slowest routes.',
    lines: [[`topk(10, ${quantile(0.99, 'le, route', rate(metric('http_request_duration_seconds')))})`, '{{route}}']],
  },
  {
    title: 'Webhook requests',
    unit: 'ops',
    description: 'Requests to webhooks and callbacks.',
    lines: [
      [sum('', rate(metric('webhook_deliveries_total'))), 'delivered'],
      [sum('', rate(metric('webhook_failures_total'))), 'failed'],
    ],
  },
  {
    title: 'Downloads',
    unit: 'Bps',
    description: 'Bytes of completed downloads.',
    lines: [[sum('', rate(metric('fetch_bytes_total'))), 'bytes']],
  },
  {
    title: 'Database errors, by SQLSTATE',
    unit: 'ops',
    description: 'Statements that failed. 40001, 40P01 and 55P03 are lost races, which are repeated.',
    lines: [[sum('sqlstate', rate(metric('database_errors_total'))), '{{sqlstate}}']],
  },
  {
    title: 'Callers that wait for a connection',
    unit: 'short',
    description: 'A lasting line means that a pool is too small.',
    lines: [[sum('pool', metric('database_pool_waiting')), '{{pool}}']],
  },
  {
    title: 'Statement p95, by operation',
    unit: 's',
    description: 'Statements of the hot path.',
    lines: [[quantile(0.95, 'le, operation', rate(metric('database_statement_seconds'))), '{{operation}}']],
  },
  {
    title: 'Submissions that repeated an earlier one',
    unit: 'ops',
    description: 'Idempotency keys that were already used, next to new jobs.',
    lines: [
      [sum('', rate(metric('jobs_deduplicated_total'))), 'repeated'],
      [shared(rate(metric('jobs_submitted_total'))), 'new'],
    ],
  },
];

// biome-ignore lint/suspicious/noTemplateCurlyInString: a variable of Grafana
const DATASOURCE = { type: 'prometheus', uid: '${datasource}' };
const [WIDTH, HEIGHT, COLUMNS] = [8, 8, 3];

function panelOf({ title, unit, description, lines }: Panel, index: number) {
  return {
    id: index + 1,
    type: 'timeseries',
    title,
    description,
    datasource: DATASOURCE,
    gridPos: { x: (index % COLUMNS) * WIDTH, y: Math.floor(index / COLUMNS) * HEIGHT, w: WIDTH, h: HEIGHT },
    fieldConfig: { defaults: { unit, min: 0 }, overrides: [] },
    options: { legend: { displayMode: 'list', placement: 'bottom' }, tooltip: { mode: 'multi' } },
    targets: lines.map(([expr, legendFormat], at) => ({ refId: String.fromCharCode(65 + at), datasource: DATASOURCE, expr, legendFormat })),
  };
}

export function dashboard(): string {
  const made = {
    uid: 'millrace',
    title: 'Millrace',
    tags: ['millrace'],
    schemaVersion: 39,
    timezone: 'browser',
    refresh: '30s',
    time: { from: 'now-3h', to: 'now' },
    templating: { list: [{ name: 'datasource', type: 'datasource', query: 'prometheus', label: 'Data source' }] },
    panels: PANELS.map(panelOf),
  };
  return `${JSON.stringify(made, null, 2)}\n`;
}
