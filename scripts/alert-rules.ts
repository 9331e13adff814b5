/** The alert rules. They take the maximum of metrics of jobs over the instances, and add up the others, as the dashboard does. */
import { metric, type Name } from './metric-series.ts';

/**
 * How much each series of a counter grew. A series that appears with its first event counts from zero, which `increase` does not see. While
 * Prometheus has not watched Millrace for that long, old events do not count as new.
 */
function grown(name: Name, range: string, selector = ''): string {
  const series = metric(name, selector);
  const isWatched = `(max(${metric('ledger_up')} offset ${range}) == 1)`;
  return `((${series} unless ${series} offset ${range}) and on() ${isWatched}) or increase(${series}[${range}])`;
}

type Alert = { name: string; for: string; severity: 'warning' | 'critical'; expression: string; summary: string; remedy: string };

const ALERTS: readonly Alert[] = [
  {
    name: 'MillraceNoWorkers',
    for: '2m',
    severity: 'critical',
    expression: `max(${metric('workers_alive')}) == 0`,
    summary: 'No worker is alive. Jobs are accepted and wait.',
    remedy: 'Start "millrace work", or look for why the workers stopped.',
  },
  {
    name: 'MillraceNoWorkerForType',
    for: '0m',
    severity: 'critical',
    // The alert is announced again each hour while the jobs wait.
    expression: `sum(${grown('alerts_total', '15m', '{kind="no_worker"}')}) > 0`,
    summary: 'Jobs of a type wait, and no live worker serves them.',
    remedy: 'See which type with "millrace alerts list --kind no_worker", and start a worker with its handler.',
  },
  {
    name: 'MillraceDatabaseDown',
    for: '1m',
    severity: 'critical',
    expression: `max(${metric('ledger_up')}) == 0`,
    summary: 'No process reaches the database.',
    remedy: 'Look at the database, its disk and the network. Jobs are kept.',
  },
  {
    name: 'MillraceJobsWaitLong',
    for: '5m',
    severity: 'warning',
    expression: `max by (queue) (${metric('queue_oldest_job_age_seconds')}) > 300`,
    summary: 'The oldest job of the queue {{ $labels.queue }} has waited for {{ $value | humanizeDuration }}.',
    remedy: 'Add workers, raise their concurrency, or resume the queue.',
  },
  {
    name: 'MillraceDeadLetters',
    for: '0m',
    severity: 'warning',
    expression: `max by (job_type, queue) (${grown('deadletter_total', '10m')}) > 0`,
    summary: 'Jobs of the type {{ $labels.job_type }} ended in the dead letter state.',
    remedy: 'See why with "millrace jobs list --state dead_letter", and retry them when the cause is gone.',
  },
  {
    name: 'MillraceFailureRate',
    for: '10m',
    severity: 'warning',
    expression: [
      `sum by (job_type) (max without (instance, pod) (rate(${metric('jobs_failed_total')}[10m])))`,
      `> 0.2 * sum by (job_type) (max without (instance, pod) (rate(${metric('jobs_started_total')}[10m])))`,
    ].join(' '),
    summary: 'More than a fifth of the attempts of the type {{ $labels.job_type }} fail.',
    remedy: 'See the errors with "millrace jobs list --state failed" and in the log.',
  },
  {
    name: 'MillraceDatabaseErrors',
    for: '5m',
    severity: 'warning',
    expression: `sum(rate(${metric('database_errors_total', '{sqlstate!~"40001|40P01|55P03"}')}[5m])) > 1`,
    summary: 'More than one statement a second fails.',
    remedy: 'The label sqlstate and the log say why.',
  },
  {
    name: 'MillraceWebhooksFail',
    for: '10m',
    severity: 'warning',
    expression: `sum(rate(${metric('webhook_failures_total')}[10m])) > sum(rate(${metric('webhook_deliveries_total')}[10m]))`,
    summary: 'More webhook requests fail than succeed.',
    remedy: 'The lines webhook.attempt of the log name the targets.',
  },
  {
    name: 'MillraceServerErrors',
    for: '5m',
    severity: 'warning',
    expression: `sum(rate(http_request_duration_seconds_count{status=~"5.."}[5m])) > 0.05 * sum(rate(http_request_duration_seconds_count[5m]))`,
    summary: 'More than 5 % of the requests get a status of 500 or more.',
    remedy: 'The lines request of the level error name the requests.',
  },
  {
    name: 'MillraceEventsSetAside',
    for: '0m',
    severity: 'warning',
    expression: `sum by (projection) (${grown('events_set_aside_total', '15m')}) > 0`,
    summary: 'Events could not be processed and were set aside by {{ $labels.projection }}.',
    remedy: 'The table millrace.set_aside has them with their errors.',
  },
];

const quoted = (text: string): string => `'${text.replaceAll("'", "''")}'`;

export function alertRules(): string {
  const rules = ALERTS.flatMap(({ name, for: lasts, severity, expression, summary, remedy }) => [
    `      - alert: ${name}`,
    `        expr: ${quoted(expression)}`,
    `        for: ${lasts}`,
    '        labels:',
    `          severity: ${severity}`,
    '        annotations:',
    `          summary: ${quoted(summary)}`,
    `          description: ${quoted(remedy)}`,
  ]);
  return [
    '# Written by "npm run ops". See docs/operations/observability.md.',
    'groups:',
    '  - name: millrace',
    '    rules:',
    ...rules,
    '',
  ].join('\n');
}
