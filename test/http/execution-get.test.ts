import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { EXECUTION_TYPES } from '../../src/core/execution/kinds.ts';
import { EXECUTION_OUTCOMES, EXECUTION_STATES } from '../../src/core/execution/states.ts';
import { useExecution } from './execution-fixture.ts';

const server = useExecution();
const FUTURE = '2040-01-15T10:30:00.000Z';
const TIMESTAMP = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/;

describe('GET /v1/jobs/{job_id}', () => {
  it('shows the job whole [FR-08.37] [FR-08.38] [FR-08.39] [FR-08.40] [FR-08.41] [FR-08.42] [FR-08.43] [FR-08.44] [FR-08.45] [FR-08.46] [FR-08.47]', async () => {
    const client = await server.client();
    const callback = 'https://example.com/hook';
    const id = await client.submit({
      type: 'DEFERRED',
      execution_at: FUTURE,
      callback,
      work_kind: 'SCHEDULED_FAR_FUTURE',
    });
    const { status, body } = await client.get(`/jobs/${id}`);
    expect(status).toBe(200);
    expect(body).toEqual({
      ...{ job_id: id, type: 'DEFERRED', state: 'CREATED', outcome: null, execution_at: FUTURE, attempt: 1, callback },
      ...{ created_at: expect.stringMatching(TIMESTAMP), updated_at: expect.stringMatching(TIMESTAMP) },
      ...{ started_at: null, finished_at: null, progress: null, failure: null },
      definition: {
        ...{ type: 'DEFERRED', work_kind: 'SCHEDULED_FAR_FUTURE', duration_ms: 2_000, should_fail: false },
        ...{ payload_size: 4_096, seed: expect.any(Number), execution_at: FUTURE, expected_outcome: 'SUCCEEDED' },
      },
    });
    const instant = (await client.get(`/jobs/${await client.submit()}`)).body;
    expect(instant).toMatchObject({ type: 'EXECUTE', execution_at: null, callback: null });
  });

  it('shows the definition and the final state, and changes nothing [FR-07.08]', async () => {
    const client = await server.client();
    const id = await client.submit({ work_kind: 'FAIL_IMMEDIATE' });
    const job = await client.reached(id, 'FAILED');
    expect(job).toMatchObject({ outcome: 'FAILED', definition: { work_kind: 'FAIL_IMMEDIATE', should_fail: true } });
    expect(job.failure).toMatchObject({ code: 'SIMULATED_FAILURE', retryable: false });
    const row = await server.ledger.rowOf({ orgId: client.clientId, id });
    expect((await client.get(`/jobs/${id}`)).body).toEqual(job);
    expect(await server.ledger.rowOf({ orgId: client.clientId, id })).toEqual(row);
  });

  it('shows state, attempt, outcome and time of change as they change [FR-05.04] [FR-08.41] [FR-08.45]', async () => {
    const client = await server.client();
    const id = await client.submit({ work_kind: 'RETRY_ON_FAIL' });
    const failed = await client.reached(id, 'FAILED');
    expect(failed).toMatchObject({ outcome: 'FAILED', attempt: 1, failure: { retryable: true } });
    await client.post(`/jobs/${id}/retry`);
    const retried = await client.reached(id, 'SUCCEEDED');
    expect(retried).toMatchObject({ outcome: 'SUCCESS', attempt: 2, failure: null, created_at: failed.created_at });
    expect(Date.parse(retried.updated_at)).toBeGreaterThan(Date.parse(failed.updated_at));
    expect(retried.definition).toEqual(failed.definition);
  });

  it('keeps every member that a stored job has to have [FR-15.07]', async () => {
    const client = await server.client();
    const id = await client.submit({ type: 'DEFERRED', execution_at: FUTURE, callback: 'https://example.com/' });
    await client.post(`/jobs/${id}/cancel`);
    const row = await server.ledger.rowOf({ orgId: client.clientId, id });
    expect(row).toMatchObject({ id, state: 'cancelled', attempt_slot: 1, callback_url: 'https://example.com/' });
    expect(row.payload).toMatchObject({ type: 'DEFERRED', execution_at: FUTURE });
    const job = (await client.get(`/jobs/${id}`)).body;
    expect(job).toMatchObject({ job_id: id, type: 'DEFERRED', state: 'CANCELED', outcome: 'CANCELED', attempt: 1 });
    expect(job).toMatchObject({ callback: 'https://example.com/', execution_at: FUTURE });
    expect([job.created_at, job.updated_at]).toEqual([(row.created_at as Date).toISOString(), (row.updated_at as Date).toISOString()]);
  });

  it('says how far a running job is and when it started', async () => {
    const client = await server.client();
    const id = await client.submit({ work_kind: 'FAIL_AFTER_PROGRESS' });
    const failed = await client.reached(id, 'FAILED');
    expect(failed.progress).toBe(75);
    expect(Date.parse(failed.finished_at) - Date.parse(failed.started_at)).toBeGreaterThanOrEqual(200);
    expect(failed.finished_at).toBe(failed.updated_at);
  });

  it.each([randomUUID(), 'not-an-id', '0', 'a%00b', encodeURIComponent("';--")])(
    'answers 404 for %s, which is no job [FR-15.06]',
    async (id) => {
      const client = await server.client();
      for (const path of [`/jobs/${id}`, `/jobs/${id}/report`]) {
        expect(await client.get(path)).toMatchObject({ status: 404, body: { code: 'RFA_JOB_NOT_FOUND' } });
      }
      for (const path of [`/jobs/${id}/cancel`, `/jobs/${id}/retry`]) {
        expect(await client.post(path)).toMatchObject({ status: 404, body: { code: 'RFA_JOB_NOT_FOUND' } });
      }
    },
  );

  it('knows no job of another API, though it is of the same client [FR-15.06]', async () => {
    const client = await server.client();
    const job = await server.ledger.submitOne({ orgId: client.clientId });
    expect((await client.get(`/jobs/${job.id}`)).status).toBe(404);
    expect((await client.post(`/jobs/${job.id}/cancel`)).status).toBe(404);
    expect((await client.get('/jobs')).body.jobs).toEqual([]);
  });

  it('has three types, seven states and three outcomes to show [FR-08.39] [FR-08.40] [FR-08.41]', () => {
    const { ExecutionJob } = server.contract.document.components.schemas;
    const { type, state, outcome } = (ExecutionJob as { properties: Record<string, { enum: unknown[] }> }).properties;
    expect(type?.enum).toEqual([...EXECUTION_TYPES]);
    expect(state?.enum).toEqual([...EXECUTION_STATES]);
    expect(state?.enum).toHaveLength(7);
    expect(outcome?.enum).toEqual([...EXECUTION_OUTCOMES, null]);
  });
});
