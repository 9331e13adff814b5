import { describe, expect, it } from 'vitest';
import { useExecution } from './execution-fixture.ts';

const server = useExecution();
const FUTURE = '2040-01-15T10:30:00Z';
const MICROSECONDS = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{6}Z$/;

type Event = { event_id: string; event_name: string; timestamp: string; next_state: string; prev_state: string | null };

describe('GET /v1/jobs/{job_id}/report', () => {
  it('tells what became of a job and every change of its state [FR-01.03] [FR-05.08] [FR-07.09] [FR-08.49] [FR-08.50] [FR-08.51] [FR-08.52] [FR-08.56] [FR-15.12] [FR-15.15]', async () => {
    const client = await server.client();
    const id = await client.submit({ work_kind: 'SUCCESS_FAST' });
    const job = await client.reached(id, 'SUCCEEDED');
    const { status, body } = await client.get(`/jobs/${id}/report`);
    expect(status).toBe(200);
    expect(body).toMatchObject({ job_id: id, outcome: 'SUCCESS', failure: null });
    expect(body.events.map(({ event_name }: Event) => event_name)).toEqual([
      ...['job.created', 'job.queued', 'job.assigned', 'job.running', 'job.succeeded'],
    ]);
    expect([body.started_at, body.finished_at]).toEqual([job.started_at, job.finished_at]);
    expect(Object.keys(body)).toEqual(expect.arrayContaining(['job_id', 'outcome', 'started_at', 'finished_at', 'duration_ms', 'events']));
  });

  it('gives the times of the attempt and how long it took [FR-08.53] [FR-08.54] [FR-08.55]', async () => {
    const client = await server.client();
    const id = await client.submit({ work_kind: 'SUCCESS_NORMAL' });
    await client.reached(id, 'SUCCEEDED');
    const report = await client.report(id);
    const { started_at, finished_at, duration_ms, events } = report;
    expect(duration_ms).toBe(Date.parse(finished_at) - Date.parse(started_at));
    expect(duration_ms).toBeGreaterThanOrEqual(100);
    const timeOf = (name: string) => Date.parse(events.find(({ event_name }: Event) => event_name === name).timestamp);
    expect(Date.parse(started_at)).toBe(timeOf('job.running'));
    expect(Date.parse(finished_at)).toBe(timeOf('job.succeeded'));
  });

  it('stores events with their own id, states and time, and gives the same again [FR-15.08] [FR-15.11] [FR-05.10]', async () => {
    const client = await server.client();
    const id = await client.submit({ work_kind: 'FAIL_IMMEDIATE' });
    await client.reached(id, 'FAILED');
    const report = await client.report(id);
    let before: Event | null = null;
    for (const event of report.events as Event[]) {
      expect(event).toMatchObject({ job_id: id, prev_state: before?.next_state ?? null, scenario: 'FAIL_IMMEDIATE' });
      expect(event.timestamp).toMatch(MICROSECONDS);
      expect(event.timestamp > (before?.timestamp ?? '')).toBe(true);
      before = event;
    }
    expect(new Set(report.events.map(({ event_id }: Event) => event_id)).size).toBe(report.events.length);
    expect(report.failure).toMatchObject({ code: 'SIMULATED_FAILURE', retryable: false });
    const { rows } = await server.ledger.db.api.query('SELECT count(*)::int4 AS n FROM millrace.records WHERE org_id = $1', [
      client.clientId,
    ]);
    expect(rows[0].n).toBeGreaterThan(0);
    expect(await client.report(id)).toEqual(report);
  });

  it('is one for each job, and not there before the job has ended [FR-05.09] [FR-05.10]', async () => {
    const client = await server.client();
    const id = await client.submit({ work_kind: 'RETRY_LIMIT_REACHED' });
    await client.reached(id, 'FAILED');
    const first = await client.report(id);
    expect(first).toMatchObject({ outcome: 'FAILED', failure: { retryable: true } });
    const waiting = await client.submit({ type: 'DEFERRED', execution_at: FUTURE });
    const none = await client.get(`/jobs/${waiting}/report`);
    expect(none).toMatchObject({ status: 404, body: { code: 'RFA_JOB_NOT_FOUND' } });
    expect(none.body.detail).toContain('CREATED');
    // A retry takes it away until the job has ended again; then it tells of both attempts.
    await client.post(`/jobs/${id}/retry`);
    await client.reached(id, 'FAILED');
    const second = await client.report(id);
    expect(second.events.slice(0, first.events.length)).toEqual(first.events);
    expect(second.events.length).toBe(first.events.length + 4);
    expect(Date.parse(second.started_at)).toBeGreaterThanOrEqual(Date.parse(first.finished_at));
  });

  it('of a job canceled before it started has no start and no duration [FR-08.53] [FR-08.55]', async () => {
    const client = await server.client();
    const id = await client.submit({ type: 'DEFERRED', execution_at: FUTURE });
    const { updated_at } = (await client.post(`/jobs/${id}/cancel`)).body;
    expect(await client.report(id)).toMatchObject({
      ...{ outcome: 'CANCELED', started_at: null, finished_at: updated_at, duration_ms: 0, failure: null },
    });
  });

  it('says when a job ran out of time', async () => {
    const client = await server.client();
    const id = await client.submit({ work_kind: 'RUNS_OVER_TIMEOUT' });
    await client.reached(id, 'FAILED');
    const report = await client.report(id);
    expect(report.failure).toMatchObject({ code: 'RFA_EXEC_TIMEOUT', retryable: true });
    expect(report.events.at(-1)).toMatchObject({ event_name: 'job.timed_out', reason: 'timeout' });
  });

  it('changes nothing [FR-07.09]', async () => {
    const client = await server.client();
    const id = await client.submit();
    await client.reached(id, 'SUCCEEDED');
    const row = await server.ledger.rowOf({ orgId: client.clientId, id });
    await client.report(id);
    expect(await server.ledger.rowOf({ orgId: client.clientId, id })).toEqual(row);
  });
});
