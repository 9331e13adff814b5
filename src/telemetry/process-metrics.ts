import type { Counter, Gauge, Histogram } from 'prom-client';
import { definitionOf, type ProcessMetricName } from './catalogue.ts';
import type { Metrics } from './metrics.ts';

const MILLISECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10] as const;
const BATCHES = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 5_000] as const;

export type PoolUse = { readonly pool: string; readonly busy: number; readonly idle: number; readonly waiting: number };

/** What one process counts. Their names are part of the contract; see the reference. */
export class ProcessMetrics {
  readonly #metrics: Metrics;
  readonly #requests: Histogram;
  readonly #deliverySeconds: Histogram;
  readonly #statements: Histogram;
  readonly #batches: Histogram;
  readonly #connections: Gauge;
  readonly #waiting: Gauge;

  constructor(metrics: Metrics) {
    this.#metrics = metrics;
    const histogram = (name: ProcessMetricName, buckets: readonly number[]) => metrics.histogram(definitionOf(name), buckets);
    this.#requests = histogram('http_request_duration_seconds', MILLISECONDS);
    this.#deliverySeconds = histogram('webhook_delivery_seconds', MILLISECONDS);
    this.#statements = histogram('database_statement_seconds', MILLISECONDS);
    this.#batches = histogram('database_batch_jobs', BATCHES);
    this.#connections = metrics.gauge(definitionOf('database_pool_connections'));
    this.#waiting = metrics.gauge(definitionOf('database_pool_waiting'));
    for (const name of COUNTERS) this.#counter(name);
  }

  request(route: string, method: string, status: number, seconds: number): void {
    this.#requests.observe({ route, method, status }, seconds);
  }

  authFailed(reason: string): void {
    this.#counter('auth_failures_total').inc({ reason });
  }

  deduplicated(submissions: number): void {
    this.#counter('jobs_deduplicated_total').inc(submissions);
  }

  unclaimed(): void {
    this.#counter('leases_expired_total').inc();
  }

  webhookAttempt(isDelivered: boolean, seconds: number): void {
    this.#counter(isDelivered ? 'webhook_deliveries_total' : 'webhook_failures_total').inc();
    this.#deliverySeconds.observe(seconds);
  }

  webhookDisabled(reason: string): void {
    this.#counter('webhooks_disabled_total').inc({ reason });
  }

  setAside(projection: string): void {
    this.#counter('events_set_aside_total').inc({ projection });
  }

  fetched(outcome: 'completed' | 'failed' | 'postponed', bytes = 0): void {
    this.#counter('fetch_tries_total').inc({ outcome });
    if (bytes > 0) this.#counter('fetch_bytes_total').inc(bytes);
  }

  databaseFailed(sqlState: string | null): void {
    this.#counter('database_errors_total').inc({ sqlstate: sqlState ?? 'none' });
  }

  statement(operation: string, seconds: number, jobs: number | null): void {
    this.#statements.observe({ operation }, seconds);
    if (jobs !== null) this.batch(operation, jobs);
  }

  batch(operation: string, jobs: number): void {
    if (jobs > 0) this.#batches.observe({ operation }, jobs);
  }

  pools(pools: readonly PoolUse[]): void {
    for (const { pool, busy, idle, waiting } of pools) {
      this.#connections.set({ pool, state: 'busy' }, busy);
      this.#connections.set({ pool, state: 'idle' }, idle);
      this.#waiting.set({ pool }, waiting);
    }
  }

  alerted(alert: { readonly kind: string; readonly severity: string }): void {
    this.#counter('alerts_total').inc({ kind: alert.kind, severity: alert.severity });
  }

  notificationLost(): void {
    this.#counter('notifications_lost_total').inc();
  }

  logLineDropped(lines: number): void {
    this.#counter('log_lines_dropped_total').inc(lines);
  }

  #counter(name: ProcessMetricName): Counter {
    return this.#metrics.counter(definitionOf(name));
  }
}

const COUNTERS: readonly ProcessMetricName[] = [
  'auth_failures_total',
  'jobs_deduplicated_total',
  'leases_expired_total',
  'webhook_deliveries_total',
  'webhook_failures_total',
  'webhooks_disabled_total',
  'events_set_aside_total',
  'fetch_tries_total',
  'fetch_bytes_total',
  'database_errors_total',
  'alerts_total',
  'notifications_lost_total',
  'log_lines_dropped_total',
];
