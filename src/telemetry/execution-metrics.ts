import type { ExecutionDefinition } from '../core/execution/definition.ts';
import type { ExecutionOutcome } from '../core/execution/states.ts';
import type { Counter, Gauge, Histogram } from './metrics.ts';
import type { Telemetry } from './telemetry.ts';

export type AttemptFacts = { readonly scenario: string; readonly attempt: number };

const MILLISECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10] as const;
const MINUTES = [...MILLISECONDS, 30, 60, 120, 300, 1_800] as const;

/** The metrics of the execution API. Their names are part of the contract; see the reference. */
export class ExecutionMetrics {
  readonly #telemetry: Telemetry;
  readonly #counters: Record<keyof typeof COUNTERS, Counter>;
  readonly #running: Gauge;
  readonly #queueWait: Histogram;
  readonly #assigned: Histogram;
  readonly #execution: Histogram;
  readonly #requests: Histogram;

  constructor(telemetry: Telemetry) {
    this.#telemetry = telemetry;
    const { metrics } = telemetry;
    this.#counters = Object.fromEntries(
      Object.entries(COUNTERS).map(([name, [help, ...labels]]) => [name, metrics.counter(name, help, labels)]),
    ) as Record<keyof typeof COUNTERS, Counter>;
    this.#running = metrics.gauge('jobs_running', 'Jobs that are running in this process.');
    this.#queueWait = metrics.histogram(
      'job_queue_wait_seconds',
      'From the moment a job was due to the start of its first attempt.',
      MINUTES,
    );
    this.#assigned = metrics.histogram('job_assigned_seconds', 'From the claim of a job to the start of its attempt.', MILLISECONDS);
    this.#execution = metrics.histogram('job_execution_seconds', 'The duration of attempts.', MINUTES);
    this.#requests = metrics.histogram(
      'http_request_duration_seconds',
      'The duration of requests, by route, method and status.',
      MILLISECONDS,
      ['route', 'method', 'status'],
    );
  }

  submitted({ work_kind }: ExecutionDefinition, isDuplicate: boolean): void {
    this.#counters[isDuplicate ? 'jobs_deduplicated_total' : 'jobs_submitted_total'].add();
    if (!isDuplicate) this.#counters.job_scenarios_submitted_total.add({ scenario: work_kind });
  }

  queued(): void {
    this.#counters.jobs_queued_total.add();
  }

  started(assignedSeconds: number): void {
    this.#counters.jobs_running_total.add();
    this.#assigned.observe(assignedSeconds);
  }

  unclaimed(): void {
    this.#counters.leases_expired_total.add();
  }

  /** Only for the first attempt of a job. */
  waited(seconds: number): void {
    this.#queueWait.observe(seconds);
  }

  running(jobs: number): void {
    this.#running.set(jobs);
  }

  /** `seconds` is null when the attempt started in another process. */
  finished({ scenario, attempt }: AttemptFacts, outcome: ExecutionOutcome, seconds: number | null): void {
    this.#counters[ENDS[outcome]].add();
    this.#counters.job_scenarios_total.add({ scenario, outcome });
    if (outcome === 'SUCCESS' && attempt > 1) this.#counters.jobs_retry_succeeded_total.add();
    if (seconds !== null) this.#execution.observe(seconds);
  }

  canceled(scenario: string): void {
    this.#counters.jobs_canceled_total.add();
    this.#counters.job_scenarios_total.add({ scenario, outcome: 'CANCELED' });
  }

  retried(isByHand: boolean): void {
    this.#counters.jobs_retried_total.add({ by: isByHand ? 'hand' : 'policy' });
    this.#counters.jobs_queued_total.add();
  }

  webhookAttempt(isDelivered: boolean): void {
    this.#counters[isDelivered ? 'webhook_deliveries_total' : 'webhook_failures_total'].add();
  }

  webhookDisabled(reason: string): void {
    this.#counters.webhooks_disabled_total.add({ reason });
  }

  setAside(projection: string): void {
    this.#counters.events_set_aside_total.add({ projection });
  }

  databaseFailed(sqlState: string | null): void {
    this.#counters.database_errors_total.add({ sqlstate: sqlState ?? 'none' });
  }

  authFailed(clientId: string | null, reason: string, requestId?: string): void {
    this.#counters.auth_failures_total.add({ reason });
    this.#telemetry.log.warn('auth failed', { request_id: requestId, client_id: clientId ?? undefined, reason });
  }

  request(route: string, method: string, status: number, seconds: number): void {
    this.#requests.observe(seconds, { route, method, status });
  }
}

const ENDS = {
  SUCCESS: 'jobs_succeeded_total',
  FAILED: 'jobs_failed_total',
  CANCELED: 'jobs_canceled_total',
} as const satisfies Record<ExecutionOutcome, keyof typeof COUNTERS>;

/** The help text of each counter, then its labels. */
const COUNTERS = {
  jobs_submitted_total: ['Submissions that created a job.'],
  jobs_deduplicated_total: ['Submissions that returned the job of an earlier submission.'],
  jobs_queued_total: ['Times a job entered the queue.'],
  jobs_running_total: ['Attempts started.'],
  leases_expired_total: ['Claims whose worker stopped sending heartbeats before the start; the jobs are queued again.'],
  jobs_succeeded_total: ['Jobs that succeeded.'],
  jobs_failed_total: ['Attempts that failed.'],
  jobs_canceled_total: ['Jobs canceled.'],
  jobs_retried_total: ['Retries of failed jobs, on request or by policy.', 'by'],
  jobs_retry_succeeded_total: ['Jobs that succeeded after a retry.'],
  job_scenarios_submitted_total: ['Submissions that created a job, by work kind.', 'scenario'],
  job_scenarios_total: ['Attempts and jobs that ended, by work kind and outcome.', 'scenario', 'outcome'],
  webhook_deliveries_total: ['Webhook requests with a 2xx response.'],
  webhook_failures_total: ['Webhook requests that failed.'],
  webhooks_disabled_total: ['Webhooks and callbacks disabled because they are gone or keep failing, by reason.', 'reason'],
  events_set_aside_total: ['Events that could not be delivered or counted and were skipped, by projection.', 'projection'],
  database_errors_total: ['Statements that failed, by SQLSTATE; "none" when the database did not respond.', 'sqlstate'],
  auth_failures_total: ['Credentials refused, by reason.', 'reason'],
} as const satisfies Record<string, readonly [string, ...string[]]>;
