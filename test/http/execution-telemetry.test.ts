import { describe, expect, it } from 'vitest';
import type { Span } from '../../src/telemetry/trace.ts';
import { until } from '../until.ts';
import { type TestClient, useExecution } from './execution-fixture.ts';
import { inAnHour, LONG } from './execution-work.ts';

const server = useExecution();
const HOUR = 3_600_000;

type Line = Record<string, unknown>;

const linesOf = (jobId: string): Line[] => server.logs.filter(({ job_id }) => job_id === jobId);
const stepsOf = (jobId: string): string[] =>
  linesOf(jobId)
    .filter(({ next_state }) => next_state !== undefined)
    .map(({ current_state = '', next_state }) => `${current_state}>${next_state}`);

/** A worker tells of a step after it has been written. */
const untilTold = (jobId: string, step: string) =>
  until(
    `the log tells ${step}`,
    () => stepsOf(jobId),
    (steps) => steps.includes(step),
  );

/** The one line about a request; it is written once the answer is out. */
async function requestLine(isIt: (line: Line) => boolean): Promise<Line> {
  const find = () => server.logs.find((line) => line.message === 'request' && isIt(line));
  await until('the log line has been written', async () => find() !== undefined);
  return find() as Line;
}

async function ended(client: TestClient, request: object, state = 'SUCCEEDED'): Promise<string> {
  const jobId = await client.submit(request);
  await client.reached(jobId, state);
  return jobId;
}

describe('the log', () => {
  it('names the request, the client, the job and the action of each call [FR-16.01] [FR-16.02] [FR-16.03] [FR-16.04]', async () => {
    const client = await server.client();
    const jobId = await ended(client, { work_kind: 'FAIL_IMMEDIATE' }, 'FAILED');
    const calls = [
      ['get', () => client.get(`/jobs/${jobId}`)],
      ['report', () => client.get(`/jobs/${jobId}/report`)],
      ['retry', () => client.post(`/jobs/${jobId}/retry`)],
      ['cancel', () => client.post(`/jobs/${jobId}/cancel`)],
    ] as const;
    for (const [action, call] of calls) {
      const requestId = (await call()).headers.get('x-request-id');
      const line = await requestLine(({ request_id }) => request_id === requestId);
      expect(line).toMatchObject({
        action,
        client_id: client.clientId,
        job_id: jobId,
        duration_ms: expect.any(Number),
      });
    }
    const submitted = await requestLine(({ action, job_id }) => action === 'submit' && job_id === jobId);
    expect(submitted).toMatchObject({ client_id: client.clientId, request_id: expect.any(String) });
  });

  it('tells each change of state with the job and the states before and after [FR-16.05] [FR-16.30]', async () => {
    const client = await server.client();
    const jobId = await ended(client, {});
    const path = ['>CREATED', 'CREATED>QUEUED', 'QUEUED>ASSIGNED', 'ASSIGNED>RUNNING', 'RUNNING>SUCCEEDED'];
    await until('every step has been logged', () => stepsOf(jobId).length, path.length);
    expect(stepsOf(jobId).toSorted()).toEqual(path.toSorted());
  });

  it('tells of a deferred job that entered the queue, of a retry and of a cancel [FR-16.30]', async () => {
    const client = await server.client();
    const deferred = await client.submit({ type: 'DEFERRED', work_kind: 'SCHEDULED_ON_TIME', execution_at: inAnHour() });
    await server.ledger.moveClock(2 * HOUR);
    await client.reached(deferred, 'SUCCEEDED');
    await server.ledger.moveClock(-2 * HOUR);
    await untilTold(deferred, 'CREATED>QUEUED');
    const retried = await ended(client, { work_kind: 'RETRY_ON_FAIL' }, 'FAILED');
    await client.post(`/jobs/${retried}/retry`);
    await client.reached(retried, 'SUCCEEDED');
    await untilTold(retried, 'FAILED>QUEUED');
    server.longJobs.hold();
    const canceled = await client.submit({ work_kind: LONG });
    await client.reached(canceled, 'RUNNING');
    await client.post(`/jobs/${canceled}/cancel`);
    await untilTold(canceled, 'RUNNING>CANCELED');
  });

  it('gives the reason, the code and the words of each failure [FR-16.06] [FR-16.31]', async () => {
    const client = await server.client();
    const failed = await ended(client, { work_kind: 'FAIL_IMMEDIATE' }, 'FAILED');
    const failure = () => linesOf(failed).find(({ next_state }) => next_state === 'FAILED');
    await until('the failure has been logged', async () => failure() !== undefined);
    expect(failure()).toMatchObject({
      ...{ message: 'job.failed', level: 'warn', reason: 'failure', current_state: 'RUNNING' },
      ...{ error_code: 'SIMULATED_FAILURE', error_message: expect.any(String) },
    });
    const late = await ended(client, { work_kind: 'RUNS_OVER_TIMEOUT' }, 'FAILED');
    await until(
      'the timeout has been logged',
      () => linesOf(late),
      (seen) => seen.some(({ reason }) => reason === 'timeout'),
    );
    const refused = await client.post('/jobs', { type: 'RESIZE' }, { 'x-request-id': 'refused-1' });
    expect(refused.status).toBe(400);
    const line = await requestLine(({ request_id }) => request_id === 'refused-1');
    expect(line).toMatchObject({ error_code: 'RFA_JOB_VALIDATION_FAILED', error_message: expect.any(String) });
  });

  it('names the scenario, its duration and its expected outcome [FR-06.10] [FR-06.11] [FR-06.12]', async () => {
    const client = await server.client();
    const jobId = await ended(client, { work_kind: 'CPU_BURST' });
    const started = () => linesOf(jobId).find(({ message }) => message === 'execution.started');
    await until('the start has been logged', () => started() !== undefined);
    const expected = { scenario: 'CPU_BURST', duration_ms: 8_000, expected_outcome: 'SUCCEEDED' };
    expect(started()).toMatchObject({ client_id: client.clientId, ...expected });
    const changes = linesOf(jobId).filter(({ next_state }) => next_state !== undefined);
    for (const line of changes) expect(line).toMatchObject({ scenario: 'CPU_BURST', expected_outcome: 'SUCCEEDED' });
  });
});

describe('traces', () => {
  const spansOf = (jobId: string): Span[] => server.spans.filter(({ attributes }) => attributes.job_id === jobId);
  const spanOf = (jobId: string, name: string): Span => {
    const span = spansOf(jobId).find((each) => each.name === name);
    if (span === undefined) throw new Error(`There is no span ${name}.`);
    return span;
  };
  const namesOf = (jobId: string): string[] => spansOf(jobId).map(({ name }) => name);
  /** These and no others, in any order: spans are recorded when they end. */
  const untilRecorded = (jobId: string, names: readonly string[]) =>
    until('every span has been recorded', () => namesOf(jobId).toSorted(), names.toSorted());

  it('follow a job from its submission to its report [FR-16.34]', async () => {
    const client = await server.client();
    const traceId = 'c'.repeat(32);
    const headers = { traceparent: `00-${traceId}-${'d'.repeat(16)}-01` };
    const { body } = await client.post('/jobs', { type: 'EXECUTE', work_kind: 'SUCCESS_FAST' }, headers);
    const names = ['submit', 'enqueue', 'assign', 'run', 'report'];
    await untilRecorded(body.job_id, names);
    const path = names.map((name) => spanOf(body.job_id, name));
    for (const span of path) expect(span.traceId).toBe(traceId);
    const [submit, enqueue, assign, run] = path as [Span, Span, Span, Span];
    const request = () => server.spans.find(({ spanId }) => spanId === submit.parentId);
    await until('the span of the request has been recorded, which ends after the answer', () => request() !== undefined);
    expect(request()).toMatchObject({ name: 'request POST /v1/jobs', parentId: 'd'.repeat(16) });
    expect(enqueue.parentId).toBe(submit.spanId);
    expect(run.parentId).toBe(assign.spanId);
  });

  it('hold the retry of a failed job together with its first attempt [FR-16.35]', async () => {
    const client = await server.client();
    const jobId = await ended(client, { work_kind: 'RETRY_ON_FAIL' }, 'FAILED');
    await client.post(`/jobs/${jobId}/retry`);
    // The first attempt may begin before its submission has ended.
    await untilRecorded(jobId, ['submit', 'enqueue', 'assign', 'run', 'report', 'retry', 'assign', 'run', 'report']);
    expect(new Set(spansOf(jobId).map(({ traceId }) => traceId)).size).toBe(1);
    const runs = spansOf(jobId).filter(({ name }) => name === 'run');
    expect(runs.map(({ attributes }) => [attributes.attempt, attributes.outcome])).toEqual([
      [1, 'FAILED'],
      [2, 'SUCCESS'],
    ]);
  });

  it('show a cancel in the trace of its job, and the run it ended [FR-16.37]', async () => {
    const client = await server.client();
    server.longJobs.hold();
    const jobId = await client.submit({ work_kind: LONG });
    await client.reached(jobId, 'RUNNING');
    await client.post(`/jobs/${jobId}/cancel`);
    await until(
      'the spans of the run and of the cancel have been recorded',
      () => namesOf(jobId),
      (seen) => seen.includes('run') && seen.includes('cancel'),
    );
    expect(spanOf(jobId, 'cancel').traceId).toBe(spanOf(jobId, 'submit').traceId);
    expect(spanOf(jobId, 'run').attributes).toMatchObject({ lost: true });
  });

  it('show a key from its creation to its end [FR-16.38]', async () => {
    const client = await server.client();
    const { body } = await client.post(`/clients/${client.clientId}/keys`, { rotate: true });
    await client.holding(body.api_key).post(`/clients/${client.clientId}/keys/revoke`, { key_id: body.key_id });
    const own = server.spans.filter(({ attributes }) => attributes.client_id === client.clientId);
    const spans = own.filter(({ name }) => name.startsWith('key.'));
    expect(spans.map(({ name }) => name)).toEqual(['key.create', 'key.rotate', 'key.revoke']);
    expect(spans.slice(1).map(({ attributes }) => attributes.key_id)).toEqual([body.key_id, body.key_id]);
  });
});
