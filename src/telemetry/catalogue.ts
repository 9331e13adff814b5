/** Every metric of the product: what it is called, what it counts and by which labels. The reference, the dashboard and the alerts use it. */
export type MetricDefinition = {
  readonly name: string;
  readonly kind: 'counter' | 'gauge' | 'histogram';
  readonly labels: readonly string[];
  readonly help: string;
};

type Definition = readonly [kind: MetricDefinition['kind'], help: string, ...labels: string[]];

const BY_JOB = ['job_type', 'queue'] as const;

/** Read from the database. Every process shows the same numbers, which include all processes. */
export const LEDGER_METRICS = {
  jobs_submitted_total: ['counter', 'Submissions that created a job.'],
  jobs_queued_total: ['counter', 'Times a job entered its queue, on submission, after a delay or for a retry.'],
  jobs_running_total: ['counter', 'Attempts started.'],
  jobs_canceled_total: ['counter', 'Jobs canceled.'],
  jobs_enqueued_total: ['counter', 'Times a job entered its queue, by type and queue.', ...BY_JOB],
  jobs_started_total: ['counter', 'Attempts started, by type and queue.', ...BY_JOB],
  jobs_succeeded_total: ['counter', 'Jobs that succeeded.', ...BY_JOB],
  jobs_failed_total: ['counter', 'Attempts that failed, by the category of the error in lower case.', ...BY_JOB, 'error_class'],
  deadletter_total: ['counter', 'Jobs that ended in the dead letter state.', ...BY_JOB],
  jobs_retried_total: ['counter', 'Retries of failed jobs, by "hand" or by "policy".', 'by'],
  jobs_retry_succeeded_total: ['counter', 'Jobs that succeeded after a retry.'],
  job_scenarios_submitted_total: ['counter', 'Jobs of /v1 submitted, by work kind.', 'scenario'],
  job_scenarios_total: ['counter', 'Attempts and jobs of /v1 that ended, by work kind and outcome.', 'scenario', 'outcome'],
  jobs_running: ['gauge', 'Jobs that are running, with those that deliver webhooks.'],
  job_queue_depth: ['gauge', 'Jobs that wait for a worker, in all queues.'],
  queue_depth: ['gauge', 'Jobs that wait for a worker, by queue.', 'queue'],
  queue_oldest_job_age_seconds: ['gauge', 'How long the oldest job of a queue has waited for a worker; 0 for an empty queue.', 'queue'],
  workers_alive: ['gauge', 'Workers with a recent heartbeat. A process has one for each kind of work.'],
  job_queue_wait_seconds: ['histogram', 'From the moment a job entered its queue to the start of the attempt.'],
  job_assigned_seconds: ['histogram', 'From the claim of a job of /v1 to the start of its attempt.'],
  job_execution_seconds: ['histogram', 'The duration of attempts.'],
  jobs_duration_seconds: ['histogram', 'The duration of attempts, by type and queue.', ...BY_JOB],
  jobs_attempts_histogram: ['histogram', 'How many attempts jobs had when they ended.', 'job_type'],
  ledger_up: ['gauge', 'Whether the database returned the metrics of jobs within a second; if not, they are absent.'],
} as const satisfies Record<string, Definition>;

/** Counted by each process from its start, so add up the processes. */
const PROCESS_METRICS = {
  http_request_duration_seconds: ['histogram', 'The duration of requests, by route, method and status.', 'route', 'method', 'status'],
  auth_failures_total: ['counter', 'Credentials refused, by reason.', 'reason'],
  jobs_deduplicated_total: ['counter', 'Submissions that returned the job of an earlier submission.'],
  leases_expired_total: ['counter', 'Claims whose worker stopped sending heartbeats before the start; the jobs are queued again.'],
  webhook_deliveries_total: ['counter', 'Webhook requests with a 2xx response.'],
  webhook_failures_total: ['counter', 'Webhook requests that failed.'],
  webhook_delivery_seconds: ['histogram', 'The duration of webhook requests.'],
  webhooks_disabled_total: ['counter', 'Webhooks and callbacks disabled because they are gone or keep failing, by reason.', 'reason'],
  events_set_aside_total: ['counter', 'Events that could not be delivered or counted and were skipped, by projection.', 'projection'],
  alerts_total: ['counter', 'Alerts that were announced, by kind and severity.', 'kind', 'severity'],
  notifications_lost_total: ['counter', 'Notifications of enqueueBestEffort that were lost.'],
  fetch_tries_total: ['counter', 'Tries of downloads that ended: "completed", "failed" or "postponed".', 'outcome'],
  fetch_bytes_total: ['counter', 'Bytes of completed downloads.'],
  database_errors_total: ['counter', 'Statements that failed, by SQLSTATE; "none" when the database did not respond.', 'sqlstate'],
  database_statement_seconds: ['histogram', 'The duration of statements of the hot path, by operation.', 'operation'],
  database_batch_jobs: ['histogram', 'How many jobs a statement of the hot path returned, by operation.', 'operation'],
  database_pool_connections: ['gauge', 'Connections of a pool, "busy" or "idle".', 'pool', 'state'],
  database_pool_waiting: ['gauge', 'Callers that wait for a connection of a pool.', 'pool'],
  log_lines_dropped_total: ['counter', 'Log lines over the limit of telemetry.log_limit.'],
} as const satisfies Record<string, Definition>;

export type LedgerMetricName = keyof typeof LEDGER_METRICS;
export type ProcessMetricName = keyof typeof PROCESS_METRICS;

const ALL: Readonly<Record<string, Definition>> = { ...LEDGER_METRICS, ...PROCESS_METRICS };
/** Kept, because counters are looked up for each event. */
const definitions = new Map<string, MetricDefinition>();

export function definitionOf(name: LedgerMetricName | ProcessMetricName): MetricDefinition {
  const known = definitions.get(name);
  if (known !== undefined) return known;
  const [kind, help, ...labels] = ALL[name] as Definition;
  const made = { name, kind, help, labels };
  definitions.set(name, made);
  return made;
}

const namesOf = <Name extends string>(metrics: Readonly<Record<Name, unknown>>): Name[] => Object.keys(metrics) as Name[];

export const ledgerDefinitions = (): MetricDefinition[] => namesOf(LEDGER_METRICS).map(definitionOf);
export const processDefinitions = (): MetricDefinition[] => namesOf(PROCESS_METRICS).map(definitionOf);
