import { describe, expect, it } from 'vitest';
import type { WorkKind } from '../../src/core/execution/kinds.ts';
import { useSimulation } from './execution-fixture.ts';

/** A runtime of five seconds at most, so that most kinds are too long. */
const hurried = useSimulation({ timeScale: 0.1, maxRuntimeMs: 5_000 });
const usual = useSimulation({ timeScale: 0.001 });
/** Seconds of room for work that fits, so that a busy machine does not make it late. */
const roomy = useSimulation({ timeScale: 1, maxRuntimeMs: 8_000 });
/** The engine looks at deadlines every 20 ms; here every time is shorter than that. */
const tiny = useSimulation({ timeScale: 0.00001 });

describe('RUNS_OVER_TIMEOUT', () => {
  it('is a second longer than any job may run, 8 KB, and ends FAILED by timeout [FR-06.26]', async () => {
    for (const [simulation, durationMs] of [
      [usual, 121_000],
      [hurried, 6_000],
      [tiny, 121_000],
    ] as const) {
      const client = await simulation.newClient();
      const jobId = await simulation.submit(client, { workKind: 'RUNS_OVER_TIMEOUT' });
      const job = await simulation.ended(client, jobId);
      expect(job).toMatchObject({ state: 'FAILED', outcome: 'FAILED', failure: { code: 'RFA_EXEC_TIMEOUT' } });
      expect(job.definition).toMatchObject({
        ...{ duration_ms: durationMs, should_fail: true, payload_size: 8_192 },
        expected_outcome: 'FAILED',
      });
    }
  });
});

describe('a job that exceeds the longest runtime', () => {
  it('is stopped and FAILED with a timeout event and reason, whatever it was [FR-14.40] [FR-14.66] [FR-17.05]', async () => {
    const client = await hurried.newClient();
    const jobs = new Map<WorkKind, string>();
    for (const workKind of ['SUCCESS_SLOW', 'RUNS_LONG', 'FAIL_AFTER_PROGRESS', 'RUNS_OVER_TIMEOUT'] as const)
      jobs.set(workKind, await hurried.submit(client, { workKind }));
    for (const [workKind, jobId] of jobs) {
      const job = await hurried.ended(client, jobId);
      expect(job).toMatchObject({ state: 'FAILED', failure: { code: 'RFA_EXEC_TIMEOUT', retryable: true } });
      const { outcome, events } = await hurried.report(client, jobId);
      expect(outcome).toBe('FAILED');
      expect(events.at(-1)).toMatchObject({
        ...{ eventName: 'job.timed_out', prevState: 'RUNNING', nextState: 'FAILED' },
        ...{ reason: 'timeout', scenario: workKind },
      });
      expect(await hurried.resultOf(client, jobId)).toBeNull();
    }
  });

  it('stays no longer RUNNING than that, and does no more work [FR-14.41] [FR-17.05]', async () => {
    const client = await hurried.newClient();
    const jobId = await hurried.submit(client, { workKind: 'RUNS_LONG' });
    await hurried.ended(client, jobId);
    // Of 110 s in ten parts, none is over after 5 s.
    expect(hurried.progress.filter((report) => report.jobId === jobId)).toEqual([]);
    expect(await hurried.read(client, jobId)).toMatchObject({ state: 'FAILED', progress: null });
  });

  it('can be retried, and the last attempt reports both the timeout and the limit [FR-14.66]', async () => {
    const client = await tiny.newClient();
    const jobId = await tiny.submit(client, { workKind: 'RUNS_OVER_TIMEOUT' });
    for (const attempt of [1, 2, 3, 4]) {
      expect(await tiny.reached(client, jobId, 'FAILED')).toMatchObject({ attempt });
      if (attempt < 4) await tiny.retry(client, jobId);
    }
    const { events } = await tiny.report(client, jobId);
    const failures = events.filter(({ nextState }) => nextState === 'FAILED');
    expect(failures.map(({ eventName, reason }) => `${eventName} ${reason}`)).toEqual([
      ...Array(3).fill('job.timed_out timeout'),
      'job.failed_final timeout',
    ]);
    expect(failures.at(-1)).toMatchObject({ retriesExhausted: true });
  });

  it('is not one that just fits [FR-17.05]', async () => {
    const client = await roomy.newClient();
    const jobs: string[] = [];
    for (const workKind of ['SUCCESS_FAST', 'PAYLOAD_LARGE'] as const) jobs.push(await roomy.submit(client, { workKind }));
    for (const jobId of jobs) expect(await roomy.ended(client, jobId)).toMatchObject({ state: 'SUCCEEDED' });
  });
});
