/** What happens to series, minute by minute, and when each alert rule must fire and be over. In the notation of promtool: "5x9" is ten fives. */
export type AlertCase = {
  readonly alert: string;
  readonly title: string;
  readonly series: Readonly<Record<string, string>>;
  /** Minutes at which nothing fires. */
  readonly silent: readonly number[];
  readonly fires: {
    readonly at: number;
    readonly labels?: Readonly<Record<string, string>> /** Of `$value`, as the summary shows it. */;
    readonly value?: string;
  };
};

const UP = { 'ledger_up{instance="a"}': '1x120' };
const COUNT = 'http_request_duration_seconds_count';

export const ALERT_CASES: readonly AlertCase[] = [
  {
    alert: 'MillraceNoWorkers',
    title: 'fires when no instance sees a worker for two minutes',
    series: { 'workers_alive{instance="a"}': '3x4 0x9 3x20', 'workers_alive{instance="b"}': '3x4 0x9 3x20' },
    silent: [4, 6, 16],
    fires: { at: 8 },
  },
  {
    alert: 'MillraceNoWorkers',
    title: 'does not fire while one instance sees a worker',
    series: { 'workers_alive{instance="a"}': '0x9 0x9', 'workers_alive{instance="b"}': '1x9 0x9' },
    silent: [9, 11],
    fires: { at: 13 },
  },
  {
    alert: 'MillraceNoWorkerForType',
    title: 'fires at the first alert about a type that waits without a worker',
    series: { ...UP, 'alerts_total{instance="a",kind="no_worker",severity="error"}': '_x20 1x60' },
    silent: [19, 40],
    fires: { at: 21 },
  },
  {
    alert: 'MillraceNoWorkerForType',
    title: 'fires when the alert is announced again, and not for alerts of other kinds',
    series: {
      ...UP,
      'alerts_total{instance="a",kind="no_worker",severity="error"}': '1x39 2x60',
      'alerts_total{instance="a",kind="slo",severity="warning"}': '1+1x90',
    },
    silent: [5, 38, 70],
    fires: { at: 43 },
  },
  {
    alert: 'MillraceDatabaseDown',
    title: 'fires when no process reaches the database for a minute',
    series: { 'ledger_up{instance="a"}': '1x4 0x9 1x20', 'ledger_up{instance="b"}': '1x4 0x9 1x20' },
    silent: [4, 5, 16],
    fires: { at: 7 },
  },
  {
    alert: 'MillraceJobsWaitLong',
    title: 'fires for the queue whose oldest job waits, and for no other',
    series: {
      'queue_oldest_job_age_seconds{instance="a",queue="q:slow"}': '0x4 400x14 0x20',
      'queue_oldest_job_age_seconds{instance="a",queue="q:quick"}': '290x60',
    },
    silent: [4, 9, 22],
    fires: { at: 12, labels: { queue: 'q:slow' }, value: '6m 40s' },
  },
  {
    alert: 'MillraceDeadLetters',
    title: 'fires at the first dead letter of a type, once for all instances',
    series: {
      ...UP,
      'deadletter_total{instance="a",job_type="mail",queue="q:default"}': '_x20 1x60',
      'deadletter_total{instance="b",job_type="mail",queue="q:default"}': '_x20 1x60',
      'deadletter_total{instance="a",job_type="old",queue="q:default"}': '7x80',
    },
    silent: [2, 19, 40],
    fires: { at: 21, labels: { job_type: 'mail', queue: 'q:default' } },
  },
  {
    alert: 'MillraceDeadLetters',
    title: 'fires at one more dead letter of a type that has some',
    series: { ...UP, 'deadletter_total{instance="a",job_type="mail",queue="q:default"}': '7x39 8x60' },
    silent: [2, 38, 60],
    fires: { at: 43, labels: { job_type: 'mail', queue: 'q:default' } },
  },
  {
    alert: 'MillraceFailureRate',
    title: 'fires when more than a fifth of the attempts of a type fail, over all classes of errors',
    series: {
      'jobs_failed_total{instance="a",job_type="mail",queue="q:default",error_class="temporary"}': '0+9x39 351x60',
      'jobs_failed_total{instance="a",job_type="mail",queue="q:default",error_class="timeout"}': '0+9x39 351x60',
      'jobs_started_total{instance="a",job_type="mail",queue="q:default"}': '0+60x100',
      'jobs_failed_total{instance="a",job_type="good",queue="q:default",error_class="timeout"}': '0+9x100',
      'jobs_started_total{instance="a",job_type="good",queue="q:default"}': '0+60x100',
    },
    silent: [5, 60],
    fires: { at: 25, labels: { job_type: 'mail' } },
  },
  {
    alert: 'MillraceDatabaseErrors',
    title: 'fires for failed statements, and not for lost races',
    series: {
      'database_errors_total{instance="a",sqlstate="57014"}': '0+90x29 2610x60',
      'database_errors_total{instance="a",sqlstate="40001"}': '0+6000x90',
    },
    silent: [4, 50],
    fires: { at: 15 },
  },
  {
    alert: 'MillraceWebhooksFail',
    title: 'fires when more webhook requests fail than succeed',
    series: { 'webhook_failures_total{instance="a"}': '0+60x39 2340x60', 'webhook_deliveries_total{instance="b"}': '0+30x100' },
    silent: [5, 60],
    fires: { at: 25 },
  },
  {
    alert: 'MillraceServerErrors',
    title: 'fires when more than 5 % of the requests fail',
    series: {
      [`${COUNT}{instance="a",route="/queue/v1/jobs",method="POST",status="503"}`]: '0+6x29 174x60',
      [`${COUNT}{instance="a",route="/queue/v1/jobs",method="POST",status="202"}`]: '0+60x90',
    },
    silent: [4, 50],
    fires: { at: 15 },
  },
  {
    alert: 'MillraceEventsSetAside',
    title: 'fires at the first event that a reader sets aside',
    series: { ...UP, 'events_set_aside_total{instance="a",projection="webhooks"}': '_x20 1x60' },
    silent: [19, 40],
    fires: { at: 21, labels: { projection: 'webhooks' } },
  },
];
