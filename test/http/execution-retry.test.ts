import { tmpdir } from 'node:os';
import { describe, expect, it } from 'vitest';
import { loadConfig } from '../../src/config/load-config.ts';
import { PROFILES } from '../../src/core/policy.ts';
import { reportProgress } from '../../src/ledger/attempts/fenced-writes.ts';
import { stageJobs } from '../../src/ledger/upkeep/stage-jobs.ts';
import type { LeasedTestJob } from '../ledger/fixture.ts';
import { until } from '../until.ts';
import { type TestClient, useExecution } from './execution-fixture.ts';
import { claimOne, inAnHour, LONG, startOne } from './execution-work.ts';

const server = useExecution();

const retry = (client: TestClient, id: string) => client.post(`/jobs/${id}/retry`);

async function failed(kind: string, url?: string): Promise<{ client: TestClient; id: string }> {
  const made = await server.client();
  const client = url === undefined ? made : made.at(url);
  const id = await client.submit({ work_kind: kind });
  await client.reached(id, 'FAILED');
  return { client, id };
}

/** Retries until the API refuses, and answers how often it did not. */
async function retriesGranted(client: TestClient, id: string): Promise<number> {
  for (let granted = 0; ; granted++) {
    const { status } = await retry(client, id);
    if (status === 409) return granted;
    await client.reached(id, 'FAILED');
  }
}

describe('retrying a FAILED job', () => {
  it('moves it to QUEUED as its next attempt, which may succeed [FR-09.20] [FR-11.04] [FR-11.05] [FR-11.01]', async () => {
    const { client, id } = await failed('RETRY_ON_FAIL');
    expect((await client.get(`/jobs/${id}`)).body).toMatchObject({ attempt: 1, outcome: 'FAILED' });
    expect(await retry(client, id)).toMatchObject({
      status: 200,
      body: { job_id: id, state: 'QUEUED', attempt: 2, updated_at: expect.any(String) },
    });
    expect(await client.reached(id, 'SUCCEEDED')).toMatchObject({ attempt: 2, outcome: 'SUCCESS' });
    expect(await client.path(id)).toEqual([
      '>CREATED:job.created',
      'CREATED>QUEUED:job.queued',
      'QUEUED>ASSIGNED:job.assigned',
      'ASSIGNED>RUNNING:job.running',
      'RUNNING>FAILED:job.failed',
      'FAILED>QUEUED:job.retried',
      'QUEUED>ASSIGNED:job.assigned',
      'ASSIGNED>RUNNING:job.running',
      'RUNNING>SUCCEEDED:job.succeeded',
    ]);
  });

  it('is granted three times, then it stays FAILED with one final event [FR-11.02] [FR-11.09] [FR-11.10]', async () => {
    const { client, id } = await failed('FAIL_IMMEDIATE');
    expect(await retriesGranted(client, id)).toBe(3);
    const job = (await client.get(`/jobs/${id}`)).body;
    const { events } = await client.report(id);
    expect(job).toMatchObject({ state: 'FAILED', attempt: 4 });
    expect(events.at(-1)).toMatchObject({ event_name: 'job.failed_final', next_state: 'FAILED' });
    expect(await client.path(id)).toSatisfy((path: string[]) => path.filter((step) => step.endsWith(':job.failed_final')).length === 1);
    expect(await retry(client, id)).toMatchObject({ status: 409, body: { code: 'RFA_JOB_CONFLICT' } });
    expect((await client.get(`/jobs/${id}`)).body).toEqual(job);
    expect((await client.report(id)).events).toEqual(events);
  });

  it('is granted as often as the configuration says [FR-11.03]', async () => {
    const url = await server.listen({ settings: { profile: { ...server.settings.profile, maxAttempts: 2 } } });
    const { client, id } = await failed('FAIL_IMMEDIATE', url);
    expect(await retriesGranted(client, id)).toBe(1);
  });

  it('waits in QUEUED for a backoff of the configured base and maximum [FR-11.06] [FR-11.07] [FR-11.08]', async () => {
    const backoff = { ...PROFILES.forgerun.backoff, initialDelayMs: 600_000, maxDelayMs: 700_000 };
    const url = await server.listen({ settings: { profile: { ...server.settings.profile, backoff } } });
    const { client, id } = await failed('FAIL_IMMEDIATE', url);
    expect((await retry(client, id)).body.state).toBe('QUEUED');
    const { run_at, updated_at } = await server.ledger.rowOf({ orgId: client.clientId, id });
    const waitMs = Number(run_at) - Number(updated_at);
    expect(waitMs).toBeGreaterThanOrEqual(540_000);
    expect(waitMs).toBeLessThanOrEqual(660_000);
    expect(await client.state(id)).toBe('QUEUED');
    expect(await claimOne(server.ledger)).toBeNull();
    await client.post(`/jobs/${id}/cancel`);
    expect((await client.path(id)).slice(-2)).toEqual(['FAILED>QUEUED:job.retried', 'QUEUED>CANCELED:job.canceled']);
  });

  it('many times at once is granted once [FR-14.51]', async () => {
    const { client, id } = await failed('FAIL_AFTER_RETRYABLE');
    await server.worker('none');
    const answers = await Promise.all(Array.from({ length: 20 }, () => retry(client, id)));
    await server.worker('start');
    expect(answers.map(({ status, body }) => [status, body.state, body.attempt])).toEqual(Array(20).fill([200, 'QUEUED', 2]));
    await until('the job has failed', () => client.state(id), 'FAILED');
    expect((await client.path(id)).filter((step) => step.endsWith(':job.retried'))).toHaveLength(1);
  });
});

describe('an attempt that is granted', () => {
  it('has no progress until it reports some, whatever the one before it did [FR-11.05]', async () => {
    const { client, id } = await failed('FAIL_AFTER_PROGRESS');
    expect((await client.get(`/jobs/${id}`)).body).toMatchObject({ state: 'FAILED', progress: 75 });
    await server.worker('none');
    await retry(client, id);
    const queued = (await client.get(`/jobs/${id}`)).body;
    expect(queued).toMatchObject({ state: 'QUEUED', attempt: 2, started_at: null, progress: null });
    await server.ledger.moveClock(1_000);
    await stageJobs(server.ledger.db.workers, { limit: 1_000, floor: null });
    const job = (await startOne(server.ledger)) as LeasedTestJob;
    expect(job.id).toBe(id);
    const progressOf = async () => (await client.get(`/jobs/${id}`)).body.progress;
    expect(await progressOf()).toBeNull();
    await reportProgress(server.ledger.db.workers, { ...job, percent: 25, message: null });
    expect(await progressOf()).toBe(25);
    await client.post(`/jobs/${id}/cancel`);
    await server.ledger.moveClock(-1_000);
    await server.worker('start');
  });
});

describe('retrying a job that would be tried again by itself', () => {
  it('queues it at once for the attempt it waits for, which begins when it would have [FR-11.04] [FR-11.05]', async () => {
    const backoff = { ...server.settings.profile.backoff, initialDelayMs: 60_000, maxDelayMs: 60_000 };
    const profile = { ...server.settings.profile, backoff, autoRetry: true };
    const client = (await server.client()).at(await server.listen({ settings: { profile } }));
    const id = await client.submit({ work_kind: 'RETRY_ON_FAIL' });
    const rowOf = () => server.ledger.rowOf({ orgId: client.clientId, id });
    await until('the job waits for its retry', async () => (await rowOf()).state, 'retrying');
    const dueAt = Number((await rowOf()).run_at);
    const answers = await Promise.all(Array.from({ length: 10 }, () => retry(client, id)));
    expect(new Set(answers.map(({ status, body }) => `${status} ${body.state} ${body.attempt}`))).toEqual(new Set(['200 QUEUED 2']));
    expect((await client.get(`/jobs/${id}`)).body).toMatchObject({ state: 'QUEUED', outcome: null, attempt: 2 });
    expect(Number((await rowOf()).run_at)).toBe(dueAt);
    await server.ledger.moveClock(120_000);
    await client.reached(id, 'SUCCEEDED');
    await server.ledger.moveClock(-120_000);
    const { events } = await client.report(id);
    const retried = events.filter(({ event_name }: { event_name: string }) => event_name === 'job.retried');
    expect(retried).toMatchObject([{ prev_state: 'FAILED', next_state: 'QUEUED', reason: 'manual', attempt: 2 }]);
  });

  it('is not granted after the last attempt, whose event still says that it was a timeout [FR-14.66] [FR-11.10]', async () => {
    const profile = { ...server.settings.profile, autoRetry: true, maxAttempts: 2, timeoutMs: 50 };
    const client = (await server.client()).at(await server.listen({ settings: { profile } }));
    const id = await client.submit({ work_kind: 'RUNS_OVER_TIMEOUT' });
    await until('the second attempt has begun', async () => (await client.get(`/jobs/${id}`)).body.attempt, 2);
    await client.reached(id, 'FAILED');
    expect(await retry(client, id)).toMatchObject({ status: 409 });
    const { events } = (await client.report(id)) as { events: { event_name: string; reason?: string }[] };
    const failures = events.filter(({ event_name }) => /failed|timed_out/.test(event_name));
    expect(failures).toMatchObject([
      { event_name: 'job.timed_out', reason: 'timeout' },
      { event_name: 'job.failed_final', reason: 'timeout', retries_exhausted: true },
    ]);
  });
});

describe('retrying a job that is not FAILED', () => {
  const REQUESTS = {
    CREATED: { type: 'DEFERRED', execution_at: inAnHour() },
    RUNNING: { work_kind: LONG },
    SUCCEEDED: {},
    CANCELED: { type: 'DEFERRED', execution_at: inAnHour() },
  };

  it.each(Object.entries(REQUESTS))(
    'answers %s, and nothing is changed or told [FR-11.01] [FR-14.46] [FR-14.47] [FR-14.50]',
    async (state, request) => {
      const client = await server.client();
      server.longJobs.hold();
      const id = await client.submit(request);
      if (state === 'CANCELED') await client.post(`/jobs/${id}/cancel`);
      const { updated_at, attempt } = await client.reached(id, state);
      expect(await retry(client, id)).toMatchObject({ status: 200, body: { job_id: id, state, attempt, updated_at } });
      await client.post(`/jobs/${id}/cancel`);
      expect((await client.path(id)).filter((step) => step.endsWith(':job.retried'))).toEqual([]);
    },
  );

  it('answers QUEUED and ASSIGNED alike, and writes no change and no event [FR-14.46] [FR-14.47]', async () => {
    const client = await server.client();
    await server.worker('none');
    const id = await client.submit();
    expect((await retry(client, id)).body).toMatchObject({ state: 'QUEUED', attempt: 1 });
    await claimOne(server.ledger);
    expect((await retry(client, id)).body).toMatchObject({ state: 'ASSIGNED', attempt: 1 });
    await client.post(`/jobs/${id}/cancel`);
    await server.worker('start');
    expect(await client.path(id)).not.toContain('FAILED>QUEUED:job.retried');
  });

  it('is not needed where the configuration retries by itself: FAILED, QUEUED, and SUCCEEDED', async () => {
    const url = await server.listen({ settings: { profile: { ...server.settings.profile, autoRetry: true } } });
    const client = (await server.client()).at(url);
    const id = await client.submit({ work_kind: 'RETRY_ON_FAIL' });
    await client.reached(id, 'SUCCEEDED');
    expect((await client.path(id)).slice(4, 6)).toEqual(['RUNNING>FAILED:job.failed', 'FAILED>QUEUED:job.retried']);
  });
});

it('the configuration gives the limit and the backoff, and shipped ones if it says nothing [FR-11.02] [FR-11.03] [FR-11.07] [FR-11.08]', () => {
  const profileOf = (environment: Record<string, string>) => loadConfig({ environment, folder: tmpdir() }).config.execution.profile;
  expect(profileOf({})).toMatchObject({ maxAttempts: 4, backoff: { initialDelayMs: 1_000, maxDelayMs: 60_000 } });
  const said = {
    MILLRACE_EXECUTION_MAX_RETRIES: '7',
    MILLRACE_EXECUTION_BACKOFF_BASE: '3s',
    MILLRACE_EXECUTION_BACKOFF_MAX: '9s',
  };
  expect(profileOf(said)).toMatchObject({ maxAttempts: 8, backoff: { initialDelayMs: 3_000, maxDelayMs: 9_000 } });
});
