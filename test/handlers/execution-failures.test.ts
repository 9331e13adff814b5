import { describe, expect, it } from 'vitest';
import type { WorkKind } from '../../src/core/execution/kinds.ts';
import { QUICK, useSimulation } from './execution-fixture.ts';

const simulation = useSimulation(QUICK);
/** No worker here, so that a definition can be changed between submission and execution. */
const waiting = useSimulation({ ...QUICK, isIdle: true });

const FAILING = [
  ['FR-06.22', 'FAIL_IMMEDIATE', 500, 1, { code: 'SIMULATED_FAILURE', retryable: false }],
  ['FR-06.23', 'FAIL_AFTER_PROGRESS', 20_000, 8, { code: 'SIMULATED_FAILURE', retryable: false }],
  ['FR-06.24', 'FAIL_AFTER_RETRYABLE', 5_000, 8, { code: 'SIMULATED_RETRYABLE', retryable: true }],
] as const satisfies readonly (readonly [string, WorkKind, number, number, object])[];

describe('a kind that fails', () => {
  it.each(FAILING)('[%s] %s of %i ms and %i KB ends FAILED', async (_, workKind, ms, kb, failure) => {
    const client = await simulation.newClient();
    const jobId = await simulation.submit(client, { workKind });
    const job = await simulation.ended(client, jobId);
    expect(job).toMatchObject({ state: 'FAILED', outcome: 'FAILED', attempt: 1, failure });
    expect(job.definition).toMatchObject({
      ...{ work_kind: workKind, duration_ms: ms, should_fail: true, payload_size: kb * 1_024 },
      expected_outcome: 'FAILED',
    });
    expect(await simulation.resultOf(client, jobId)).toBeNull();
  });

  it('FAIL_AFTER_PROGRESS has reported 25, 50 and 75 percent before [FR-06.23]', async () => {
    const client = await simulation.newClient();
    const jobId = await simulation.submit(client, { workKind: 'FAIL_AFTER_PROGRESS' });
    expect(await simulation.ended(client, jobId)).toMatchObject({ state: 'FAILED', progress: 75 });
    const reports = simulation.progress.filter((report) => report.jobId === jobId);
    expect(reports.map(({ percent }) => percent)).toEqual([25, 50, 75]);
  });
});

describe('a kind about retries', () => {
  it('RETRY_ON_FAIL of 3 000 ms and 4 KB fails first and succeeds on the retry [FR-06.34]', async () => {
    const client = await simulation.newClient();
    const jobId = await simulation.submit(client, { workKind: 'RETRY_ON_FAIL' });
    expect(await simulation.ended(client, jobId)).toMatchObject({ state: 'FAILED', attempt: 1, definition: RETRIED });
    await simulation.retry(client, jobId);
    const job = await simulation.reached(client, jobId, 'SUCCEEDED');
    expect(job).toMatchObject({ outcome: 'SUCCESS', attempt: 2, failure: null });
    expect(await namesOf(client, jobId)).toEqual([
      ...['job.created', 'job.queued', 'job.assigned', 'job.running', 'job.failed'],
      ...['job.retried', 'job.assigned', 'job.running', 'job.succeeded'],
    ]);
  });

  it('RETRY_LIMIT_REACHED of 3 000 ms and 4 KB fails at every attempt until no retry is left [FR-06.35]', async () => {
    const client = await simulation.newClient();
    const jobId = await simulation.submit(client, { workKind: 'RETRY_LIMIT_REACHED' });
    for (const attempt of [1, 2, 3, 4]) {
      const job = await simulation.reached(client, jobId, 'FAILED');
      expect(job).toMatchObject({ attempt, definition: RETRIED, failure: { code: 'SIMULATED_RETRYABLE' } });
      if (attempt < 4) await simulation.retry(client, jobId);
    }
    await expect(simulation.retry(client, jobId)).rejects.toMatchObject({ code: 'CONFLICT' });
    const names = await namesOf(client, jobId);
    expect(names.filter((name) => name === 'job.failed')).toHaveLength(3);
    expect(names.at(-1)).toBe('job.failed_final');
  });
});

describe('a definition that is not there when the job is to run', () => {
  const WHOLE = {
    ...{ type: 'EXECUTE', work_kind: 'SUCCESS_FAST', duration_ms: 1_000, should_fail: false },
    ...{ payload_size: 4_096, seed: 1, execution_at: null, expected_outcome: 'SUCCEEDED' },
  };
  const BROKEN: Record<string, unknown> = {
    'is empty': {},
    'is null': null,
    'lacks its duration': { ...WHOLE, duration_ms: undefined },
    'names no known kind': { ...WHOLE, work_kind: 'MINING' },
    'has a duration that is no number': { ...WHOLE, duration_ms: '1000' },
    'lasts shorter than its kind': { ...WHOLE, duration_ms: 10 },
    'fails though its kind does not': { ...WHOLE, should_fail: true },
    'promises another size than its kind': { ...WHOLE, payload_size: 1_024 },
    'is of a kind that is never run': { ...WHOLE, work_kind: 'PAYLOAD_INVALID', duration_ms: 0, payload_size: 0 },
  };

  it('fails the job as RUNNING -> FAILED with an event, and nothing of it is run [FR-14.38] [FR-14.39]', async () => {
    const client = await waiting.newClient();
    const intact = await waiting.submit(client);
    const broken = new Map<string, string>();
    for (const [what, payload] of Object.entries(BROKEN)) {
      const jobId = await waiting.submit(client);
      await waiting.corrupt(client, jobId, payload);
      broken.set(what, jobId);
    }
    await waiting.work();
    for (const [what, jobId] of broken) {
      const job = await waiting.ended(client, jobId);
      expect(job, what).toMatchObject({ state: 'FAILED', failure: { code: 'DEFINITION_MISSING', retryable: false } });
      expect(await waiting.resultOf(client, jobId), what).toBeNull();
      const { events } = await waiting.report(client, jobId);
      expect(events.at(-1), what).toMatchObject({
        ...{ eventName: 'job.failed', prevState: 'RUNNING', nextState: 'FAILED' },
        reason: 'failure',
      });
    }
    expect(await waiting.ended(client, intact)).toMatchObject({ state: 'SUCCEEDED' });
    expect(waiting.logs.map(({ jobId }) => jobId)).toEqual([intact]);
  });
});

const RETRIED = { duration_ms: 3_000, should_fail: true, payload_size: 4_096 };

async function namesOf(client: Awaited<ReturnType<typeof simulation.newClient>>, jobId: string): Promise<string[]> {
  return (await simulation.report(client, jobId)).events.map(({ eventName }) => eventName);
}
