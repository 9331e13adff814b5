/** A worker that the database cannot reach for longer than a lease, while jobs wait in its line. */
import { expect, it, onTestFinished } from 'vitest';
import { Claims } from '../../src/engine/claims.ts';
import { giveBackUnknown } from '../../src/engine/give-back-unknown.ts';
import { Millrace } from '../../src/index.ts';
import { PolicyCache } from '../../src/ledger/intern-policies.ts';
import { takeJobs } from '../../src/ledger/take-jobs.ts';
import { DatabaseRoad } from '../ledger/database-road.ts';
import { lanesOf } from '../ledger/fixture.ts';
import { until, useBench } from '../library/fixture.ts';

const bench = useBench();

it('works on once the database is back', async () => {
  const road = new DatabaseRoad(bench.ledger.db.url);
  await road.open();
  onTestFinished(() => road.close());
  const org = await bench.ledger.newOrg();
  const worker = await Millrace.open({ database: road.url, org, concurrency: 4 });
  onTestFinished(() => worker.close({ grace: 0 }));
  let isHeldUp = false;
  let begun = 0;
  let held = 0;
  let aborted = 0;
  worker.register({
    type: 'cut-off',
    lease: '1s',
    handler: async ({ signal }) => {
      begun++;
      if (!isHeldUp) return;
      held++;
      await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
      aborted++;
    },
  });
  await worker.start();
  const caller = await bench.work({}, { org });
  const many = (count: number) => Array.from({ length: count }, () => ({ type: 'cut-off', payload: {} }));
  await caller.submitMany(many(1_000));
  await until(() => begun > 300);
  isHeldUp = true;
  await until(() => held === 4);
  await road.close();
  await until(() => aborted === 4);
  isHeldUp = false;
  await road.open();
  const { results } = await caller.submitMany(many(100));
  for (const { jobId } of results) expect((await caller.waitFor(jobId as string)).state).toBe('completed');
  const unfinished = `SELECT count(*)::int4 AS n FROM millrace.jobs WHERE org_id = $1 AND state <> 'completed'`;
  await until(async () => (await bench.ledger.db.api.query(unfinished, [org])).rows[0].n === 0);
  expect(await bench.violations()).toEqual([]);
});

it('gives back no job of a claim whose answer is still to come', async () => {
  const { ledger } = bench;
  const job = await ledger.submitOne();
  const workerId = await ledger.registerWorker();
  const claims = new Claims();
  const claimNo = claims.next();
  const { jobs } = await takeJobs(ledger.db.workers, { workerId, lanes: lanesOf(job), limit: 1, claimNo });
  expect(jobs).toHaveLength(1);
  const params = { database: ledger.db, policies: new PolicyCache(ledger.db.workers), workerId, claims };
  await giveBackUnknown(params);
  expect(await ledger.rowOf(job)).toMatchObject({ state: 'running', worker_id: workerId });
  claims.answered(claimNo);
  await giveBackUnknown(params);
  expect(await ledger.rowOf(job)).toMatchObject({ state: 'scheduled', worker_id: null });
});
