/** Metrics as a real process serves them. */
import { beforeAll, describe, expect, it } from 'vitest';
import { useLedger } from '../ledger/fixture.ts';
import { until } from '../until.ts';
import { keyOf, type Observed, post, scrape, startUp, startWork, total } from './observed-process.ts';

const ledger = useLedger();

const NAMED_BY_FORGERUN = {
  jobs_submitted_total: 'counter',
  jobs_queued_total: 'counter',
  jobs_running_total: 'counter',
  jobs_succeeded_total: 'counter',
  jobs_failed_total: 'counter',
  jobs_canceled_total: 'counter',
  job_queue_depth: 'gauge',
  job_queue_wait_seconds: 'histogram',
  job_execution_seconds: 'histogram',
  webhook_deliveries_total: 'counter',
  webhook_failures_total: 'counter',
};
const NAMED_BY_GOVERNANCE = {
  jobs_enqueued_total: 'counter',
  jobs_started_total: 'counter',
  jobs_succeeded_total: 'counter',
  jobs_failed_total: 'counter',
  jobs_duration_seconds: 'histogram',
  jobs_attempts_histogram: 'histogram',
  deadletter_total: 'counter',
};

const grew = (url: string, name: string, to: number, labels: Record<string, string> = {}) =>
  until(`${name} is ${to}`, () => total(url, name, labels), to);

describe('a process that serves the API and runs jobs', () => {
  it('shows all eighteen named metrics, and counts jobs of every API [FR-16.07] [FR-16.08] [FR-16.09] [FR-16.10] [FR-16.11] [FR-16.12] [FR-16.13] [FR-16.14] [FR-16.15] [FR-16.16] [FR-16.17] [FR-16.18] [FR-16.19] [FR-16.20] [FR-16.21] [FR-16.22] [FR-16.25] [FR-16.26] [FR-16.27] [AB-obs.10] [AB-obs.11] [AB-obs.12] [AB-obs.13] [AB-obs.14] [AB-obs.15] [AB-obs.16] [AB-accept.06]', async () => {
    const { url } = await startUp(ledger);
    const { headers } = await keyOf(ledger);
    const { text } = await scrape(url);
    for (const [name, kind] of Object.entries({ ...NAMED_BY_FORGERUN, ...NAMED_BY_GOVERNANCE })) {
      expect(text).toContain(`\n# TYPE ${name} ${kind}\n`);
      expect(text).toMatch(new RegExp(`# HELP ${name} \\S`));
    }
    const client = { job_type: 'forgerun.simulated', queue: 'q:default' };
    const simulated = { job_type: 'simulate', queue: 'q:default' };
    await post(`${url}/v1/jobs`, { headers, body: { type: 'EXECUTE', work_kind: 'SUCCESS_FAST' } });
    await post(`${url}/v1/jobs`, { headers, body: { type: 'EXECUTE', work_kind: 'FAIL_IMMEDIATE' } });
    for (let round = 0; round < 2; round++) {
      const body = { type: 'simulate', payload: { duration_ms: 1, failure: 'TEMPORARY', fail_times: 1 }, idempotency_key: 'same' };
      await post(`${url}/queue/v1/jobs`, { headers, body });
    }
    await post(`${url}/queue/v1/jobs`, { headers, body: { type: 'simulate', payload: { duration_ms: 1, failure: 'PERMANENT' } } });
    const dying = { type: 'simulate', payload: { duration_ms: 1, failure: 'TEMPORARY', fail_times: 9 }, max_attempts: 1 };
    await post(`${url}/queue/v1/jobs`, { headers, body: dying });
    const { job_id } = await post(`${url}/queue/v1/jobs`, { headers, body: { type: 'simulate', payload: {}, delay: 'PT1H' } });
    await post(`${url}/queue/v1/jobs/${job_id}/cancel`, { headers });
    await grew(url, 'jobs_submitted_total', 6);
    await grew(url, 'jobs_succeeded_total', 1, client);
    await grew(url, 'jobs_failed_total', 1, { ...client, error_class: 'permanent' });
    await grew(url, 'jobs_succeeded_total', 1, simulated);
    await grew(url, 'jobs_failed_total', 2, { ...simulated, error_class: 'temporary' });
    await grew(url, 'jobs_failed_total', 1, { ...simulated, error_class: 'permanent' });
    await grew(url, 'deadletter_total', 1, simulated);
    await grew(url, 'jobs_canceled_total', 1);
    await grew(url, 'jobs_retried_total', 1, { by: 'policy' });
    await grew(url, 'jobs_retry_succeeded_total', 1);
    for (const name of ['jobs_queued_total', 'jobs_enqueued_total', 'jobs_running_total', 'jobs_started_total']) await grew(url, name, 6);
    await grew(url, 'jobs_deduplicated_total', 1);
    for (const name of ['job_queue_wait_seconds', 'job_execution_seconds', 'jobs_duration_seconds']) await grew(url, `${name}_count`, 6);
    await grew(url, 'job_assigned_seconds_count', 2);
    await grew(url, 'jobs_attempts_histogram_count', 3, { job_type: 'simulate' });
    await grew(url, 'jobs_attempts_histogram_bucket', 2, { job_type: 'simulate', le: '1' });
    await grew(url, 'job_scenarios_total', 1, { scenario: 'FAIL_IMMEDIATE', outcome: 'FAILED' });
    // Read by a statement of its own, perhaps before the counters of the same scrape.
    await grew(url, 'jobs_running', 0);
  });

  it('measures the requests of every API by route and status, its statements and its connections [FR-16.23] [FR-16.24] [FR-16.28] [FR-16.29]', async () => {
    const { url } = await startUp(ledger);
    const { headers } = await keyOf(ledger);
    await fetch(`${url}/queue/v1/stats`, { headers });
    await fetch(`${url}/v1/jobs`);
    await fetch(`${url}/operators/v1/jobs`);
    await fetch(`${url}/jobs`, { method: 'POST', headers, body: '{}' });
    const count = 'http_request_duration_seconds_count';
    await grew(url, count, 1, { route: '/queue/v1/stats', method: 'GET', status: '200' });
    await grew(url, count, 1, { route: '/v1/jobs', method: 'GET', status: '401' });
    await until('a request of the ingest API is measured', async () => {
      const { series } = await scrape(url);
      return series.some(({ name, labels }) => name === count && labels.route?.startsWith('/jobs') === true);
    });
    const { text } = await scrape(url);
    for (const le of ['0.001', '0.25', '+Inf']) {
      expect(await total(url, 'http_request_duration_seconds_bucket', { route: '/queue/v1/stats', le })).toBeGreaterThanOrEqual(
        le === '+Inf' ? 1 : 0,
      );
    }
    expect(text).toContain('# TYPE database_errors_total counter');
    await until('a pool has a connection', async () => (await total(url, 'database_pool_connections', { pool: 'maintenance' })) > 0);
    expect(await total(url, 'database_statement_seconds_count', { operation: 'heartbeat' })).toBeGreaterThanOrEqual(0);
    await until('the workers are alive', async () => (await total(url, 'workers_alive')) >= 2);
    await grew(url, 'ledger_up', 1);
    expect(await total(url, 'auth_failures_total', { reason: 'MISSING' })).toBeGreaterThanOrEqual(0);
  });
});

describe('a worker with a port', () => {
  let worker: Observed;
  const handlers = 'export const handlers = { "odd\\"type\\\\": () => {}, ok: () => {} };';

  beforeAll(() => ledger.newOrg());

  it('serves metrics and health, also for handlers of a module', async () => {
    worker = await startWork(ledger, ['handlers.js'], { 'handlers.js': handlers.replace('"odd\\"type\\\\": () => {}, ', '') });
    expect((await fetch(`${worker.url}/healthz`)).status).toBe(200);
    const readiness = async () => {
      const answer = await fetch(`${worker.url}/readyz`);
      return [answer.status, ((await answer.json()) as { status: string }).status];
    };
    // A database that is slow for a second is reported as unreachable.
    await until('the worker is ready', readiness, [200, 'ready']);
    expect((await fetch(`${worker.url}/queue/v1/jobs`)).status).toBe(404);
    const { orgId } = await keyOf(ledger);
    await ledger.submitOne({ orgId, type: 'ok' });
    await until('the job is counted', () => total(worker.url, 'jobs_succeeded_total', { job_type: 'ok' }), 1);
    expect(await total(worker.url, 'process_cpu_seconds_total')).toBeGreaterThan(0);
    worker.program.kill('SIGTERM');
    expect(await worker.program.ended).toMatchObject({ code: 0 });
  });
});

describe('several processes', () => {
  it('show the same counters, which equal the ledger after one of them was killed [FR-16.21] [FR-16.28] [AB-obs.12]', async () => {
    const { orgId } = await keyOf(ledger);
    const workers = await Promise.all([startWork(ledger), startWork(ledger), startWork(ledger)]);
    const jobs = 300;
    const submitted = `SELECT count(*)::int4 AS count FROM millrace.jobs WHERE job_type NOT IN ('webhook.deliver', 'millrace.maintenance')`;
    const before = (await ledger.db.api.query(submitted)).rows[0].count;
    for (let made = 0; made < jobs; made++) {
      const payload = made % 10 === 0 ? { duration_ms: 1, failure: 'TEMPORARY', fail_times: 1 } : { duration_ms: 2 };
      await ledger.submitOne({ orgId, type: 'simulate', job: { payload: { kind: 'json', text: JSON.stringify(payload) } } });
    }
    const [first, second, third] = workers as [Observed, Observed, Observed];
    second.program.kill('SIGKILL');
    await second.program.ended;
    const again = await startWork(ledger);
    const ended = `SELECT count(*) FILTER (WHERE state = 'completed')::int4 AS completed, count(*) FILTER (WHERE state < 'completed')::int4 AS open
      FROM millrace.jobs WHERE org_id = $1`;
    await until('every job has ended', async () => (await ledger.db.api.query(ended, [orgId])).rows[0].open, 0);
    await grew(first.url, 'jobs_submitted_total', before + jobs);
    const truth = `SELECT count(*) FILTER (WHERE to_state = 'completed')::int4 AS succeeded, count(*) FILTER (WHERE to_state = 'running')::int4 AS started,
      count(*) FILTER (WHERE from_state = 'running' AND to_state IN ('retrying', 'failed', 'dead_letter'))::int4 AS failed,
      count(*) FILTER (WHERE to_state = 'scheduled')::int4 AS queued FROM millrace.events WHERE job_type NOT IN ('webhook.deliver', 'millrace.maintenance')`;
    const { succeeded, started, failed, queued } = (await ledger.db.api.query(truth)).rows[0];
    for (const { url } of [first, third, again]) {
      await grew(url, 'jobs_succeeded_total', succeeded);
      await grew(url, 'jobs_started_total', started);
      await grew(url, 'jobs_running_total', started);
      await grew(url, 'jobs_failed_total', failed);
      await grew(url, 'jobs_queued_total', queued);
      await until('it has measured as many attempts as the first', async () => {
        const [own, other] = [await total(url, 'job_execution_seconds_count'), await total(first.url, 'job_execution_seconds_count')];
        return own > 0 && own === other;
      });
    }
  });
});
