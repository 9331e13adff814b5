import { describe, expect, it } from 'vitest';
import { until } from '../until.ts';
import { QUICK, useSimulation } from './execution-fixture.ts';

/** Real durations: a job ends before its time only because it was told to. */
const working = useSimulation({ timeScale: 1 });
const idle = useSimulation({ ...QUICK, isIdle: true });

describe('CANCEL_BEFORE_START', () => {
  it('of 5 000 ms and 4 KB is CANCELED by a cancel while it is QUEUED, and never runs [FR-06.32]', async () => {
    const client = await idle.newClient();
    const jobId = await idle.submit(client, { workKind: 'CANCEL_BEFORE_START' });
    expect(await idle.read(client, jobId)).toMatchObject({ state: 'QUEUED' });
    expect(await idle.cancel(client, jobId)).toMatchObject({ state: 'CANCELED' });
    const left = await idle.submit(client, { workKind: 'CANCEL_BEFORE_START' });
    await idle.work();
    expect(await idle.ended(client, left)).toMatchObject({ state: 'SUCCEEDED' });
    const job = await idle.read(client, jobId);
    expect(job).toMatchObject({ state: 'CANCELED', outcome: 'CANCELED', startedAt: null, failure: null });
    expect(job.definition).toMatchObject({ ...SHORT, duration_ms: 5_000 });
    expect(idle.logs.map((log) => log.jobId)).toEqual([left]);
  });
});

describe('CANCEL_DURING_RUN', () => {
  it('of 10 000 ms and 4 KB is CANCELED by a cancel while it is RUNNING, and its work stops [FR-06.33]', async () => {
    const client = await working.newClient();
    const jobId = await working.submit(client, { workKind: 'CANCEL_DURING_RUN' });
    await working.reached(client, jobId, 'RUNNING');
    expect(await working.cancel(client, jobId)).toMatchObject({ state: 'CANCELED' });
    const job = await working.read(client, jobId);
    expect(job).toMatchObject({ state: 'CANCELED', outcome: 'CANCELED', failure: null });
    expect(job.definition).toMatchObject({ ...SHORT, duration_ms: 10_000 });
    await until(
      'the worker has lost the job',
      () => working.lost,
      (seen) => seen.has(jobId),
    );
    const { events, outcome } = await working.report(client, jobId);
    expect(outcome).toBe('CANCELED');
    expect(events.at(-1)).toMatchObject({ eventName: 'job.canceled', prevState: 'RUNNING', nextState: 'CANCELED' });
    expect(await working.resultOf(client, jobId)).toBeNull();
  });

  it('succeeds when it is not cancelled [FR-06.33]', async () => {
    const client = await idle.newClient();
    const jobId = await idle.submit(client, { workKind: 'CANCEL_DURING_RUN' });
    await idle.work();
    expect(await idle.ended(client, jobId)).toMatchObject({ state: 'SUCCEEDED' });
  });
});

describe('an instant job', () => {
  it('is in the queue when its submission is answered, and starts without being asked again [FR-06.50]', async () => {
    const client = await working.newClient();
    const jobId = await working.submit(client, { workKind: 'SUCCESS_SLOW' });
    const { state } = await working.reached(client, jobId, 'RUNNING');
    expect(state).toBe('RUNNING');
    await working.cancel(client, jobId);
    const { events } = await working.report(client, jobId);
    expect(events.slice(0, 4).map(({ eventName }) => eventName)).toEqual([...['job.created', 'job.queued', 'job.assigned', 'job.running']]);
  });

  it('waits in the queue without a time limit while no worker is there [FR-06.50]', async () => {
    const client = await idle.newClient();
    const { state, jobId } = await idle.accept(client);
    expect(state).toBe('QUEUED');
    await idle.work();
    expect(await idle.ended(client, jobId)).toMatchObject({ state: 'SUCCEEDED' });
  });
});

const SHORT = { should_fail: false, payload_size: 4_096, expected_outcome: 'CANCELED' };
