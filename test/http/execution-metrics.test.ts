import { describe, expect, it } from 'vitest';
import { run } from '../../src/ledger/driver/statement.ts';
import { projectAll } from '../ledger/project-all.ts';
import { until } from '../until.ts';
import { useExecution } from './execution-fixture.ts';
import { LONG } from './execution-work.ts';

const server = useExecution();

async function scrape(): Promise<string[]> {
  await projectAll(server.ledger);
  return (await (await fetch(`${server.url}/metrics`)).text()).split('\n').filter((line) => line !== '');
}

/** The value of a series, or the sum of all series of a metric; zero where there is none yet. */
async function read(series: string): Promise<number> {
  const lines = (await scrape()).filter((each) => each.startsWith(`${series} `) || each.startsWith(`${series}{`));
  return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0);
}

/** By how much the numbers grew while this was done; waits until they grew by as much as expected. */
async function growth(expected: Record<string, number>, work: () => Promise<unknown>): Promise<void> {
  const names = Object.keys(expected);
  const measure = async () => Object.fromEntries(await Promise.all(names.map(async (name) => [name, await read(name)])));
  const before = await measure();
  await work();
  const grown = async () => {
    const after = await measure();
    return Object.fromEntries(names.map((name) => [name, after[name] - before[name]]));
  };
  // What is told after an answer is out comes a moment later.
  await until('the metrics have grown as expected', grown, expected);
  expect(await grown()).toEqual(expected);
}

describe('GET /metrics', () => {
  it('is open to everybody and speaks the format of Prometheus', async () => {
    const response = await fetch(`${server.url}/metrics`);
    expect(response.status).toBe(200);
    expect(response.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8');
    const lines = (await response.text()).split('\n').filter((line) => line !== '');
    for (const line of lines) expect(line).toMatch(/^(?:# (?:HELP|TYPE) \w+ .+|\w+(?:\{.*\})? [\d.e+-]+)$/);
  });

  it('counts a success: submissions, queue, start, end, and how long each took [FR-16.07] [FR-16.08] [FR-16.09] [FR-16.10] [FR-16.14] [FR-16.15] [FR-16.18] [FR-16.20]', async () => {
    const client = await server.client();
    const expected = {
      ...{ jobs_submitted_total: 1, jobs_queued_total: 1, jobs_running_total: 1, jobs_succeeded_total: 1 },
      ...{ job_queue_wait_seconds_count: 1, job_execution_seconds_count: 1, jobs_failed_total: 0 },
    };
    await growth(expected, async () => client.reached(await client.submit(), 'SUCCEEDED'));
  });

  it('counts failures and cancels apart from successes [FR-16.11] [FR-16.12] [FR-16.21]', async () => {
    const client = await server.client();
    await growth({ jobs_succeeded_total: 1, jobs_failed_total: 1, jobs_canceled_total: 1 }, async () => {
      await client.reached(await client.submit(), 'SUCCEEDED');
      await client.reached(await client.submit({ work_kind: 'FAIL_IMMEDIATE' }), 'FAILED');
      server.longJobs.hold();
      const jobId = await client.submit({ work_kind: LONG });
      await client.post(`/jobs/${jobId}/cancel`);
    });
  });

  it('counts each scenario, and how it ended [FR-06.13] [FR-06.14]', async () => {
    const client = await server.client();
    const expected = {
      'job_scenarios_submitted_total{scenario="RETRY_ON_FAIL"}': 1,
      'job_scenarios_total{scenario="RETRY_ON_FAIL",outcome="FAILED"}': 1,
      'job_scenarios_total{scenario="RETRY_ON_FAIL",outcome="SUCCESS"}': 1,
    };
    await growth(expected, async () => {
      const jobId = await client.submit({ work_kind: 'RETRY_ON_FAIL' });
      await client.reached(jobId, 'FAILED');
      await client.post(`/jobs/${jobId}/retry`);
      await client.reached(jobId, 'SUCCEEDED');
    });
  });

  it('counts retries and those that succeeded [FR-16.26]', async () => {
    const client = await server.client();
    const expected = { 'jobs_retried_total{by="hand"}': 2, jobs_retry_succeeded_total: 1, jobs_queued_total: 4 };
    await growth(expected, async () => {
      for (const [kind, end] of [
        ['RETRY_ON_FAIL', 'SUCCEEDED'],
        ['FAIL_IMMEDIATE', 'FAILED'],
      ] as const) {
        const jobId = await client.submit({ work_kind: kind });
        await client.reached(jobId, 'FAILED');
        await client.post(`/jobs/${jobId}/retry`);
        const isOver = async () => (await client.get(`/jobs/${jobId}`)).body;
        await until(`the second attempt is ${end}`, async () => {
          const { state, attempt } = await isOver();
          return state === end && attempt === 2;
        });
      }
    });
  });

  it('counts repeats of a submission apart from new jobs [FR-16.27]', async () => {
    const client = await server.client();
    await growth({ jobs_submitted_total: 1, jobs_deduplicated_total: 2 }, async () => {
      for (let round = 0; round < 3; round++) await client.submit({ idempotency_key: 'same' });
    });
  });

  it('measures requests by route, method and status, in buckets for their percentiles [FR-16.23] [FR-16.24]', async () => {
    const client = await server.client();
    const jobId = await client.submit();
    const series = (status: number) => `{route="/v1/jobs/:job_id",method="GET",status="${status}"}`;
    const expected = {
      [`http_request_duration_seconds_count${series(200)}`]: 2,
      [`http_request_duration_seconds_count${series(404)}`]: 1,
    };
    await growth(expected, async () => {
      await client.get(`/jobs/${jobId}`);
      await client.get(`/jobs/${jobId}`);
      await client.get('/jobs/00000000-0000-4000-8000-000000000000');
    });
    const bounds = (await scrape()).filter((line) => line.startsWith('http_request_duration_seconds_bucket'));
    expect(bounds.length).toBeGreaterThan(10);
  });

  it('has buckets for the percentiles of executions, and the time in QUEUED and ASSIGNED [FR-16.19] [FR-16.25]', async () => {
    const client = await server.client();
    await client.reached(await client.submit(), 'SUCCEEDED');
    const lines = await scrape();
    for (const name of ['job_execution_seconds', 'job_queue_wait_seconds', 'job_assigned_seconds']) {
      const buckets = lines.filter((line) => line.startsWith(`${name}_bucket`));
      expect([name, buckets.length]).toEqual([name, expect.any(Number)]);
      expect(buckets.length).toBeGreaterThan(10);
      expect(await read(`${name}_count`)).toBeGreaterThan(0);
    }
  });

  it('tells the depth of the queue and the workers alive, over all processes [FR-16.13] [FR-16.28]', async () => {
    const client = await server.client();
    await until('the worker is counted as alive', () => read('workers_alive'), 1);
    await server.worker('none');
    try {
      const jobs = [await client.submit(), await client.submit()];
      expect(await read('job_queue_depth')).toBe(2);
      expect(await read('queue_depth{queue="q:default"}')).toBe(2);
      expect(await read('queue_oldest_job_age_seconds{queue="q:default"}')).toBeGreaterThan(0);
      await until('the worker is no longer counted', () => read('workers_alive'), 0);
      await server.worker('start');
      for (const jobId of jobs) await client.reached(jobId, 'SUCCEEDED');
      expect(await read('job_queue_depth')).toBe(0);
    } finally {
      await server.worker('start');
    }
  });

  it('counts failed statements of the database [FR-16.29]', async () => {
    await growth({ 'database_errors_total{sqlstate="22012"}': 1 }, async () => {
      await run(server.ledger.db.api, { name: 'test_failing', text: 'SELECT 1 / 0' }).catch(() => {});
    });
  });

  it('has a signal for submissions, executions, failures and webhooks [FR-19.04]', async () => {
    const names = new Set((await scrape()).filter((line) => line.startsWith('# TYPE')).map((line) => line.split(' ')[2]));
    for (const name of [
      ...['jobs_submitted_total', 'jobs_queued_total', 'jobs_running_total', 'jobs_running', 'job_execution_seconds'],
      ...['jobs_failed_total', 'auth_failures_total', 'database_errors_total'],
      ...['webhook_deliveries_total', 'webhook_failures_total'],
    ])
      expect(names).toContain(name);
  });
});
