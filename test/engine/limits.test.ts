import { randomUUID } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { mostAtOnce, mostStarts, runIntervals } from '../../chaos/limit-history.ts';
import { allEnded, useBench } from '../library/fixture.ts';
import { WorkerProcess } from './worker-process.ts';

const bench = useBench();
const script = fileURLToPath(new URL('../../chaos/limited-worker.ts', import.meta.url));

/** `org`: how many milliseconds a job of the script takes. */
const startWorkers = (count: number) =>
  Promise.all(Array.from({ length: count }, () => WorkerProcess.start({ script, url: bench.ledger.db.url, org: '5' })));

test('four processes, two of them killed at work: never a fourth job at the same time, and all jobs run', async () => {
  const workers = await startWorkers(4);
  const millrace = await bench.open();
  const key = randomUUID();
  const submission = { type: 'limited', payload: {}, maxAttempts: 100, limit: { key, concurrency: 3 } };
  const { results } = await millrace.submitMany(Array.from({ length: 300 }, () => submission));
  await allEnded(millrace, results.slice(0, 50));
  await workers[0]?.kill();
  await allEnded(millrace, results.slice(50, 100));
  await workers[1]?.kill();
  await allEnded(millrace, results);
  // Whether three ever met depends on the machine.
  expect(mostAtOnce(await runIntervals(bench.ledger.db.api, key))).toBeLessThanOrEqual(3);
  expect(await bench.violations()).toEqual([]);
});

test('two processes: no second has more starts than the rate', async () => {
  await startWorkers(2);
  const millrace = await bench.open();
  const key = randomUUID();
  const submission = { type: 'limited', payload: {}, limit: { key, rate: 20, per: '1s' } };
  const { results } = await millrace.submitMany(Array.from({ length: 60 }, () => submission));
  await allEnded(millrace, results);
  const runs = await runIntervals(bench.ledger.db.api, key);
  expect(runs).toHaveLength(60);
  // A slow machine may need more than a second for the first twenty.
  expect(mostStarts(runs, 1_000)).toBeLessThanOrEqual(20);
});

test('ten thousand waiting jobs of a blocked key cost a claim nothing', async () => {
  const type = `crowd-${randomUUID()}`;
  const millrace = await bench.open();
  const limit = { key: type, concurrency: 1 };
  for (let n = 0; n < 10; n++) await millrace.submitMany(Array.from({ length: 1_000 }, () => ({ type, payload: {}, limit })));
  const { rows } = await bench.ledger.db.api.query('SELECT count(*)::int4 AS ready FROM millrace.ready WHERE job_type = $1', [type]);
  expect(rows).toEqual([{ ready: 0 }]);
  const free = await millrace.submit({ type, payload: {} });
  const ran: string[] = [];
  const worker = await bench.work({ [type]: ({ jobId }) => void ran.push(jobId) });
  await allEnded(worker, [free]);
  expect(ran).toContain(free.jobId);
  expect(ran.indexOf(free.jobId)).toBeLessThan(1_000);
});
