import { expect, it } from 'vitest';
import { AT_ONCE, pathOf, useBench } from '../library/fixture.ts';
import { until } from '../until.ts';
import { folderWith, start } from './program.ts';

const bench = useBench();

/** `near` waits for ever, and `spin` never yields. It sleeps, so that the processor is free for other tests. */
const MODULE = `
  import { writeSync } from 'node:fs';
  const say = (words) => writeSync(1, words + '\\n');
  export const handlers = {
    near: { handler: ({ jobId }) => { say('near ' + jobId); return new Promise(() => {}); } },
    spin: { handler: ({ jobId }) => { say('spin ' + jobId); for (;;) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_000); } },
  };`;

const NEIGHBOURS = 3;

it('a worker whose handler never yields returns its other jobs and ends, although it cannot handle SIGTERM [FR-16.31]', async () => {
  const database = bench.ledger.db.url;
  const server = start(['serve', '--port', '0', '--json'], { database });
  const { url } = JSON.parse((await server.said(/^.*"url".*$/m))[0]) as { url: string };
  const worker = start(['work', 'spin.js', '--concurrency', '10', '--name', 'w-1'], { database, cwd: folderWith({ 'spin.js': MODULE }) });
  const millrace = await bench.open();
  const near = await Promise.all(Array.from({ length: NEIGHBOURS }, () => millrace.submit({ type: 'near', payload: {} })));
  for (const { jobId } of near) await worker.said(new RegExp(`near ${jobId}`));
  // A timeout that leaves a busy machine time to see the blocked worker before it is ended.
  const spin = await millrace.submit({ type: 'spin', payload: {}, timeout: '20s', backoff: AT_ONCE });
  await worker.said(new RegExp(`spin ${spin.jobId}`));
  worker.kill('SIGTERM');

  const neighbour = near[0]?.jobId as string;
  await until('explain names the blocked worker', async () => (await millrace.explain(neighbour))?.obstacles[0]?.code, 'WORKER_STALLED');
  expect((await millrace.explain(spin.jobId))?.summary).toMatch(/^A handler has blocked the event loop of worker w-1 for \d+ s\./);
  await until(
    'the readiness of another process names it',
    async () => JSON.stringify(await (await fetch(`${url}/readyz`)).json()),
    (answer) => /"message":"1 worker does not respond: a handler has blocked the event loop for \d+ s\./.test(answer),
  );

  for (const type of ['near', 'spin']) millrace.register({ type, handler: ({ attempt }) => ({ attempt }) });
  await millrace.start();
  for (const { jobId } of [...near, spin]) {
    expect(await millrace.waitFor(jobId, { timeout: '60s' })).toMatchObject({ state: 'completed', result: { output: { attempt: 2 } } });
  }
  expect(await pathOf(millrace, spin.jobId)).toContain('running>retrying:timed_out');
  expect(await pathOf(millrace, neighbour)).toContain('running>retrying:worker_lost');
  expect(await millrace.failure(neighbour)).toMatchObject({
    failure: { code: 'WORKER_LOST', message: expect.stringContaining('blocked the event loop') },
  });

  expect((await worker.ended).signal).toBe('SIGKILL');
  const last = worker.logs.find(({ message }) => message === 'process.blocked');
  expect(last).toMatchObject({ level: 'error', time: expect.stringMatching(/^\d{4}-.*Z$/), job_id: spin.jobId, job_type: 'spin' });
  expect(last?.reason).toMatch(/The event loop of this process \(\d+\) has been blocked for /);
  expect(last?.reason).toContain(`Job ${spin.jobId} of type spin ran past its timeout of PT20S`);
  await until('the tables agree', () => bench.violations(), []);
});
