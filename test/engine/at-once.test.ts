import { expect, it } from 'vitest';
import { observeStatements } from '../../src/ledger/driver/statement.ts';
import { Gate, useBench } from '../library/fixture.ts';
import { until } from '../until.ts';

const bench = useBench();

const BORN_RUNNING = ['pending>scheduled:submitted', 'scheduled>running:started', 'running>completed:succeeded'];

/** The names of the statements that are answered from now on. */
function sent(): string[] {
  const names: string[] = [];
  observeStatements(({ name }) => names.push(name));
  return names;
}

it('a lone job for an idle worker is written and started by one statement, with its whole history', async () => {
  const millrace = await bench.work({ echo: (_, payload) => payload });
  const names = sent();
  let jobId = '';
  // A worker that has just begun is looking for work and not idle yet.
  await until('an idle worker takes a job with its submission', async () => {
    names.length = 0;
    const submitted = await millrace.submit({ type: 'echo', payload: { a: 1 } });
    expect(submitted.state).toBe('scheduled');
    jobId = submitted.jobId;
    await millrace.waitFor(jobId);
    return names.includes('millrace_submit_started_job') && !names.includes('millrace_submit_alike_jobs');
  });
  observeStatements(null);
  const job = await millrace.get(jobId, { includeHistory: true });
  expect(job).toMatchObject({ state: 'completed', result: { output: { a: 1 } }, attemptsStarted: 1 });
  expect(job?.history?.map(({ from, to, reason }) => `${from}>${to}:${reason}`)).toEqual(BORN_RUNNING);
  expect(await bench.violations()).toEqual([]);
});

it('a lone job waits in line where no slot is free, and is not lost', async () => {
  const gate = new Gate();
  const millrace = await bench.work({ held: () => gate.pass() }, { concurrency: 1 });
  const first = await millrace.submit({ type: 'held', payload: {} });
  await gate.reached();
  const second = await millrace.submit({ type: 'held', payload: {} });
  expect(await millrace.get(second.jobId)).toMatchObject({ state: 'scheduled', attemptsStarted: 0 });
  gate.open();
  for (const { jobId } of [first, second]) expect((await millrace.waitFor(jobId)).state).toBe('completed');
  expect(await bench.violations()).toEqual([]);
});

it('a lone job of a paused queue stays in line', async () => {
  const millrace = await bench.work({ calm: () => 'ran' });
  await millrace.queues.pause('q:default');
  const { jobId } = await millrace.submit({ type: 'calm', payload: {} });
  expect(await millrace.get(jobId)).toMatchObject({ state: 'scheduled', attemptsStarted: 0 });
  await millrace.queues.resume('q:default');
  expect((await millrace.waitFor(jobId)).state).toBe('completed');
});

it('a lone job with tags keeps them', async () => {
  const millrace = await bench.work({ calm: () => 'ran' });
  const tags = { team: 'blue' };
  const { jobId } = await millrace.submit({ type: 'calm', payload: {}, tags });
  expect(await millrace.waitFor(jobId)).toMatchObject({ state: 'completed', tags });
});
