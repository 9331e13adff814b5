import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { expect, it, onTestFinished } from 'vitest';
import { simulateRegistration } from '../../src/handlers/simulate.ts';
import { AT_ONCE, pathOf, useBench } from '../library/fixture.ts';
import { until } from '../until.ts';

const WORKER = fileURLToPath(new URL('./fixtures/simulator.ts', import.meta.url));
const HOUR_MS = 3_600_000;

const bench = useBench();

it('a simulated crash kills the process that allows it, and the job goes on elsewhere', async () => {
  const child = spawn(process.execPath, [WORKER, bench.ledger.db.url], { stdio: ['ignore', 'inherit', 'inherit'] });
  onTestFinished(() => void child.kill('SIGKILL'));
  const died = once(child, 'exit');
  const millrace = await bench.open({ defaults: { leaseMs: 1_000 } });
  const payload = { duration_ms: 0, progress_steps: 2, checkpoint: true, failure: 'CRASH', fail_times: 1 };
  const { jobId } = await millrace.submit({ type: 'simulate', payload, backoff: AT_ONCE });
  expect(await died).toEqual([null, 'SIGKILL']);
  millrace.register(simulateRegistration());
  await millrace.start();
  const job = await millrace.waitFor(jobId, { timeout: '30s' });
  expect(job).toMatchObject({ state: 'completed', attemptsStarted: 2, result: { output: { attempt: 2, steps: 1 } } });
  expect(await pathOf(millrace, jobId)).toContain('running>retrying:worker_lost');
});

it.each([true, false])('a simulated job that is cancelled with force %s stops at once', async (force) => {
  const millrace = await bench.open();
  millrace.register(simulateRegistration());
  await millrace.start();
  const { jobId } = await millrace.submit({ type: 'simulate', payload: { duration_ms: HOUR_MS } });
  await until('the job runs', async () => (await millrace.get(jobId))?.state, 'running');
  await millrace.cancel(jobId, { force });
  expect(await millrace.waitFor(jobId, { timeout: '20s' })).toMatchObject({ state: 'cancelled' });
});

it('a simulated job ends with its timeout though its work would take longer', async () => {
  const millrace = await bench.open();
  millrace.register(simulateRegistration());
  await millrace.start();
  const { jobId } = await millrace.submit({
    ...{ type: 'simulate', payload: { duration_ms: HOUR_MS }, timeout: '1s', maxAttempts: 1 },
  });
  const job = await millrace.waitFor(jobId, { timeout: '20s' });
  expect(job).toMatchObject({ state: 'dead_letter', lastFailure: { category: 'TIMEOUT' } });
});
