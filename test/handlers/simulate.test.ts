import { describe, expect, it } from 'vitest';
import { type SimulateOptions, simulateRegistration } from '../../src/handlers/simulate.ts';
import type { SimulatePayload } from '../../src/handlers/simulate-payload.ts';
import type { TestMillraceOptions } from '../../src/testing/index.ts';
import { openMill } from '../testing/opening.ts';

type Jobs = { simulate: { payload: SimulatePayload; result: unknown } };

async function openSimulator(options: SimulateOptions = { timeScale: 0 }, mine: TestMillraceOptions = {}) {
  const mill = await openMill<Jobs>(mine);
  const progress: [number, string | null][] = [];
  expect(mill.register(simulateRegistration(options)).status).toBe('REGISTERED');
  mill.millrace.on('progress', ({ percent, message }) => progress.push([percent, message]));
  return { mill, progress };
}

describe('a simulated job', () => {
  it('takes its duration times the time scale', async () => {
    const { mill } = await openSimulator({ timeScale: 0.01 });
    const startedMs = performance.now();
    const job = await mill.runJob('simulate', { duration_ms: 20_000 });
    const tookMs = performance.now() - startedMs;
    expect(job).toMatchObject({ state: 'completed', result: { output: { attempt: 1, steps: 1, children: [] } } });
    expect(tookMs).toBeGreaterThanOrEqual(195);
    expect(tookMs).toBeLessThan(20_000);
  });

  it('takes its duration as it is when no time scale is given', async () => {
    const { mill } = await openSimulator({});
    const startedMs = performance.now();
    const { state } = await mill.runJob('simulate', { duration_ms: 100 });
    expect(state).toBe('completed');
    expect(performance.now() - startedMs).toBeGreaterThanOrEqual(99);
  });

  it('reports its progress in equal steps', async () => {
    const { mill, progress } = await openSimulator();
    await mill.runJob('simulate', { duration_ms: 10, progress_steps: 4 });
    expect(progress).toEqual([
      [25, 'step 1 of 4'],
      [50, 'step 2 of 4'],
      [75, 'step 3 of 4'],
      [100, 'step 4 of 4'],
    ]);
  });

  it('returns the requested number of bytes, the same ones every time', async () => {
    const { mill } = await openSimulator();
    const outputs = [];
    for (const output_bytes of [1_000, 1_000, 0]) {
      const job = await mill.runJob('simulate', { duration_ms: 0, output_bytes });
      outputs.push(job.result?.output as Uint8Array);
    }
    expect(outputs.map((output) => output.byteLength)).toEqual([1_000, 1_000, 0]);
    expect(outputs[0]).toEqual(outputs[1]);
    expect(new Set(outputs[0]).size).toBeGreaterThan(100);
  });
});

describe('a simulated failure', () => {
  it('that is temporary happens the requested number of times, then the job succeeds', async () => {
    const { mill } = await openSimulator();
    const { id } = await mill.runJob('simulate', { duration_ms: 0, failure: 'TEMPORARY', fail_times: 2 });
    const outcomes = await mill.fastForward();
    expect(outcomes.map(({ state }) => state)).toEqual(['retrying', 'completed']);
    const job = await mill.millrace.get(id);
    expect(job).toMatchObject({ attemptsStarted: 3, lastFailure: { code: 'SIMULATED_TEMPORARY' } });
  });

  it('that is temporary happens at every attempt by default', async () => {
    const { mill } = await openSimulator();
    await mill.submit({ type: 'simulate', payload: { duration_ms: 0, failure: 'TEMPORARY' }, maxAttempts: 4 });
    const outcomes = await mill.fastForward();
    expect(outcomes.map(({ state }) => state)).toEqual(['retrying', 'retrying', 'retrying', 'dead_letter']);
  });

  it('that is permanent ends the job at once', async () => {
    const { mill } = await openSimulator();
    const job = await mill.runJob('simulate', { duration_ms: 0, failure: 'PERMANENT' });
    expect(job).toMatchObject({
      state: 'failed',
      attemptsStarted: 1,
      lastFailure: { category: 'PERMANENT', code: 'SIMULATED_PERMANENT' },
    });
  });

  it('by time runs on until the timeout of the job', async () => {
    const { mill } = await openSimulator();
    const payload = { duration_ms: 0, failure: 'TIMEOUT', fail_times: 1 } as const;
    const job = await mill.runJob('simulate', payload, { timeout: '1s' });
    expect(job).toMatchObject({
      state: 'retrying',
      lastFailure: { category: 'TIMEOUT', code: 'EXECUTION_TIMEOUT' },
    });
    const outcomes = await mill.fastForward();
    expect(outcomes.map(({ state }) => state)).toEqual(['completed']);
  });

  it('by crash is refused with a sentence where it is not allowed, and tried again', async () => {
    const { mill } = await openSimulator();
    const job = await mill.runJob('simulate', { duration_ms: 0, failure: 'CRASH', fail_times: 1 });
    expect(job.state).toBe('retrying');
    expect(job.lastFailure).toMatchObject({ category: 'TEMPORARY', code: 'SIMULATED_CRASH_REFUSED' });
    expect(job.lastFailure?.message).toContain('allowCrash');
    expect((await mill.fastForward()).map(({ state }) => state)).toEqual(['completed']);
  });
});

describe('a simulated job with checkpoints', () => {
  it('gets half of its steps done before it fails, and goes on from there', async () => {
    const { mill, progress } = await openSimulator();
    const payload = {
      duration_ms: 0,
      progress_steps: 4,
      checkpoint: true,
      failure: 'TEMPORARY',
      fail_times: 1,
    } as const;
    const { id } = await mill.runJob('simulate', payload);
    expect(progress.map(([percent]) => percent)).toEqual([25, 50]);
    await mill.fastForward();
    expect(progress.map(([percent]) => percent)).toEqual([25, 50, 75, 100]);
    const job = await mill.millrace.get(id);
    expect(job?.result?.output).toEqual({ attempt: 2, steps: 2, children: [] });
  });

  it('begins anew without them', async () => {
    const { mill, progress } = await openSimulator();
    await mill.runJob('simulate', { duration_ms: 0, progress_steps: 2, failure: 'TEMPORARY', fail_times: 1 });
    await mill.fastForward();
    expect(progress.map(([percent]) => percent)).toEqual([50, 50, 100]);
  });
});

describe('a simulated job that spawns', () => {
  // One slot: a child cannot begin before its parent's handler has returned.
  it('waits for its children when it is to join them', async () => {
    const { mill } = await openSimulator({ timeScale: 0 }, { concurrency: 1 });
    const { jobId } = await mill.submit({
      type: 'simulate',
      payload: { duration_ms: 0, spawn: { count: 3, join: true } },
    });
    const outcomes = await mill.run();
    expect(outcomes.map(({ state }) => state)).toEqual(['completed', 'completed', 'completed', 'completed']);
    expect(outcomes.at(-1)?.jobId).toBe(jobId);
    const children = outcomes.slice(0, -1).map((outcome) => outcome.jobId);
    expect((await mill.millrace.get(jobId))?.result?.output).toMatchObject({
      children: expect.arrayContaining(children),
    });
  });

  it('starts them once, even when it runs several times', async () => {
    const { mill } = await openSimulator();
    const payload = { duration_ms: 0, spawn: { count: 2 }, failure: 'TEMPORARY', fail_times: 2 } as const;
    const { id } = await mill.runJob('simulate', payload);
    await mill.fastForward();
    expect(await mill.millrace.get(id)).toMatchObject({ state: 'completed', attemptsStarted: 3 });
    expect((await mill.millrace.search({ types: ['simulate'] })).totalCount).toBe(3);
  });

  it('leaves them to themselves otherwise', async () => {
    const { mill } = await openSimulator({ timeScale: 0 }, { concurrency: 1 });
    const { jobId } = await mill.submit({ type: 'simulate', payload: { duration_ms: 0, spawn: { count: 2 } } });
    const outcomes = await mill.run();
    expect(outcomes).toHaveLength(3);
    expect(outcomes[0]?.jobId).toBe(jobId);
  });
});

describe('the payload of a simulated job', () => {
  it.each([
    [{}, 'duration_ms: is required'],
    [{ duration_ms: -1 }, 'duration_ms: must be an integer from 0 to 86400000'],
    [{ duration_ms: '5' }, 'duration_ms: must be an integer from 0 to 86400000'],
    [{ duration_ms: 1, failure: 'SOMETIMES' }, 'failure: must be one of TEMPORARY, PERMANENT, TIMEOUT, CRASH'],
    [{ duration_ms: 1, fail_times: 2 }, 'fail_times: needs failure, which says how the attempts fail'],
    [{ duration_ms: 1, failure: 'CRASH', fail_times: 0 }, 'fail_times: must be an integer from 1 to 1000'],
    [{ duration_ms: 1, progress_steps: 1.5 }, 'progress_steps: must be an integer from 1 to 1000'],
    [{ duration_ms: 1, checkpoint: 'yes' }, 'checkpoint: must be true or false'],
    [{ duration_ms: 1, spawn: 3 }, 'spawn: must be an object'],
    [{ duration_ms: 1, spawn: { join: true } }, 'spawn.count: is required'],
    [{ duration_ms: 1, spawn: { count: 1, jion: true } }, 'spawn.jion: is not known (did you mean join?)'],
    [{ duration_ms: 1, output_bytes: 2_000_000 }, 'output_bytes: must be an integer from 0 to 1048576'],
    [{ durationms: 1 }, 'durationms: is not known (did you mean duration_ms?)'],
    [{ duration_ms: 1, constructor: 1 }, 'constructor: is not known'],
    [new Uint8Array(3), 'must be an object'],
  ])('%j is refused: %s', async (payload, sentence) => {
    const { schema } = simulateRegistration();
    const result = await schema['~standard'].validate(payload);
    const sentences = result.issues?.map(({ path = [], message }) => [path.join('.'), message].filter(Boolean).join(': '));
    expect(sentences?.[0]).toBe(sentence);
  });

  it('that is wrong fails the job permanently with the reason', async () => {
    const { mill } = await openSimulator();
    const job = await mill.runJob('simulate', { duration_ms: 1, checkpoints: true } as never);
    expect(job.state).toBe('failed');
    expect(job.lastFailure).toMatchObject({
      code: 'INVALID_PAYLOAD',
      message: 'The payload is not valid: checkpoints: is not known (did you mean checkpoint?)',
    });
  });
});
