import { describe, expect, it } from 'vitest';
import { PROFILES } from '../../src/core/policy.ts';
import { until } from '../until.ts';
import { type TestClient, useExecution } from './execution-fixture.ts';
import { claimOne, inAnHour, LONG } from './execution-work.ts';

const server = useExecution({ profile: PROFILES.forgerun });

const cancel = (client: TestClient, id: string) => client.post(`/jobs/${id}/cancel`);

describe('cancelling a job', () => {
  it('that waits for its time: it is CANCELED and never queued [FR-09.12]', async () => {
    const client = await server.client();
    const id = await client.submit({ type: 'DEFERRED', execution_at: inAnHour() });
    expect(await cancel(client, id)).toMatchObject({
      status: 200,
      body: { job_id: id, state: 'CANCELED', updated_at: expect.any(String) },
    });
    expect(await client.path(id)).toEqual(['>CREATED:job.created', 'CREATED>CANCELED:job.canceled']);
    expect(await client.report(id)).toMatchObject({ outcome: 'CANCELED', started_at: null, duration_ms: 0 });
  });

  it('that waits for a worker: it is CANCELED and never run [FR-09.14]', async () => {
    const client = await server.client();
    await server.worker('none');
    const id = await client.submit();
    expect((await cancel(client, id)).body.state).toBe('CANCELED');
    await server.worker('start');
    const after = await client.submit();
    await client.reached(after, 'SUCCEEDED');
    expect(await client.path(id)).toEqual(['>CREATED:job.created', 'CREATED>QUEUED:job.queued', 'QUEUED>CANCELED:job.canceled']);
  });

  it('that a worker has claimed: it was ASSIGNED and is CANCELED [FR-09.13] [FR-09.16]', async () => {
    const client = await server.client();
    await server.worker('none');
    const id = await client.submit();
    expect(await claimOne(server.ledger)).toMatchObject({ id });
    expect(await client.state(id)).toBe('ASSIGNED');
    expect((await cancel(client, id)).body.state).toBe('CANCELED');
    await server.worker('start');
    expect((await client.path(id)).slice(2)).toEqual(['QUEUED>ASSIGNED:job.assigned', 'ASSIGNED>CANCELED:job.canceled']);
  });

  it('that runs: it is CANCELED at once, and its handler is stopped in the background [FR-09.19]', async () => {
    const client = await server.client();
    server.longJobs.hold();
    const id = await client.submit({ work_kind: LONG });
    await client.reached(id, 'RUNNING');
    const stopped = Promise.withResolvers<void>();
    const off = server.engine.events.on('lost', ({ jobId }) => jobId === id && stopped.resolve());
    expect((await cancel(client, id)).body.state).toBe('CANCELED');
    expect(await client.state(id)).toBe('CANCELED');
    await stopped.promise;
    off();
    expect((await client.path(id)).slice(3)).toEqual(['ASSIGNED>RUNNING:job.running', 'RUNNING>CANCELED:job.canceled']);
  });

  it('many times at once cancels it once [FR-14.51] [FR-09.59]', async () => {
    const client = await server.client();
    server.longJobs.hold();
    const id = await client.submit({ work_kind: LONG });
    const answers = await Promise.all(Array.from({ length: 20 }, () => cancel(client, id)));
    expect(answers.map(({ status, body }) => `${status} ${body.state}`)).toEqual(Array(20).fill('200 CANCELED'));
    expect(new Set(answers.map(({ body }) => body.updated_at)).size).toBe(1);
    expect((await client.path(id)).filter((step) => step.endsWith(':job.canceled'))).toHaveLength(1);
  });
});

describe('cancelling a job that has ended', () => {
  const REQUESTS = {
    SUCCEEDED: { work_kind: 'SUCCESS_FAST' },
    FAILED: { work_kind: 'FAIL_IMMEDIATE' },
    CANCELED: { type: 'DEFERRED', execution_at: inAnHour() },
  };

  it.each(Object.entries(REQUESTS))(
    'answers %s, and nothing is changed or told [FR-14.44] [FR-14.45] [FR-14.50]',
    async (state, request) => {
      const client = await server.client();
      const id = await client.submit(request);
      if (state === 'CANCELED') await cancel(client, id);
      const job = await client.reached(id, state);
      const report = await client.report(id);
      expect(await cancel(client, id)).toMatchObject({
        status: 200,
        body: { job_id: id, state, updated_at: job.updated_at },
      });
      expect((await client.get(`/jobs/${id}`)).body).toEqual(job);
      expect(await client.report(id)).toEqual(report);
    },
  );
});

describe('cancelling a job that failed and would be tried again by itself', () => {
  it('leaves it FAILED at the time it failed, drops the attempt, and tells nothing [FR-09.45] [FR-14.44] [FR-14.45]', async () => {
    const backoff = { ...PROFILES.forgerun.backoff, initialDelayMs: 60_000 };
    const url = await server.listen({ settings: { profile: { ...PROFILES.forgerun, autoRetry: true, backoff } } });
    const client = (await server.client()).at(url);
    const id = await client.submit({ work_kind: 'FAIL_AFTER_RETRYABLE' });
    await until('the job waits for its retry', () => server.ledger.stateOf({ orgId: client.clientId, id }), 'retrying');
    const job = (await client.get(`/jobs/${id}`)).body;
    const before = await client.report(id);
    const [row] = (await client.get('/reports')).body.reports;
    await server.ledger.moveClock(5_000);
    const answer = await cancel(client, id);
    await server.ledger.moveClock(-5_000);
    expect(answer).toMatchObject({ status: 200, body: { state: 'FAILED', updated_at: job.updated_at } });
    expect(await server.ledger.stateOf({ orgId: client.clientId, id })).toBe('failed');
    expect((await client.get(`/jobs/${id}`)).body).toEqual(job);
    expect(await client.report(id)).toEqual(before);
    expect((await client.get('/reports')).body.reports).toEqual([row]);
    expect(before).toMatchObject({ finished_at: job.finished_at, duration_ms: row.duration_ms });
  });
});

describe('a job that cannot be cancelled', () => {
  it('because it does not exist is a 404 that says so', async () => {
    const client = await server.client();
    for (const id of ['0b7b7a3e-5d9a-4c0c-8a54-8a2c7ee8a001', 'nonsense']) {
      expect(await cancel(client, id)).toMatchObject({ status: 404, body: { code: 'RFA_JOB_NOT_FOUND' } });
    }
  });

  it('because the key may not is a 403', async () => {
    const client = await server.client();
    const id = await client.submit({ type: 'DEFERRED', execution_at: inAnHour() });
    const reader = await client.with('jobs:read');
    expect(await cancel(reader, id)).toMatchObject({ status: 403, body: { code: 'RFA_AUTH_FORBIDDEN' } });
    expect(await client.state(id)).toBe('CREATED');
  });
});
