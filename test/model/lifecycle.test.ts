/**
 * The life-cycle of jobs against a model of it. Random commands of callers, workers (also those that lost a job and do not
 * know it) and keepers run on a real ledger and on `model.ts`; after each the rows must agree, at the end the histories.
 *
 * MODEL_RUNS=5000 vitest run test/model/lifecycle.test.ts    for a long run (about 40 commands a run)
 * MODEL_SEED=n MODEL_PATH=p MODEL_REPLAY=r                   to repeat a failure: its seed, path and replayPath
 */
import fc from 'fast-check';
import { beforeAll, expect, test } from 'vitest';
import { useLedger } from '../ledger/fixture.ts';
import { performed } from './command.ts';
import { commands } from './commands.ts';
import { compareHistories, compareHoldings, compareRows } from './compare.ts';
import { settleDown } from './keeper-commands.ts';
import { begin, stopClock } from './system.ts';

const RUNS = Number(process.env.MODEL_RUNS ?? 100);
const REPLAY =
  process.env.MODEL_SEED === undefined
    ? {}
    : { seed: Number(process.env.MODEL_SEED), path: process.env.MODEL_PATH ?? '' };

const ledger = useLedger();
beforeAll(() => stopClock(ledger));

test('whatever callers, workers, zombies and keepers do, jobs are where the model says', {
  timeout: 30_000 + RUNS * 1_000,
}, async () => {
  const startedAt = performance.now();
  const property = fc.asyncProperty(commands(process.env.MODEL_REPLAY), async (drawn) => {
    const { model, real } = await begin(ledger);
    await fc.asyncModelRun(() => ({ model, real }), drawn);
    await compareHoldings(model, real);
    await compareHistories(model, real);
    await settleDown(model, real);
    await compareRows(model, real);
    await compareHistories(model, real);
    const stuck = model.jobs.filter((job) => job.holder !== null || ['delayed', 'retrying'].includes(job.state));
    expect(stuck, 'jobs that nobody will move').toEqual([]);
  });
  await fc.assert(property, { numRuns: RUNS, ...REPLAY });
  const seconds = (performance.now() - startedAt) / 1_000;
  if (process.env.MODEL_RUNS !== undefined) {
    console.info(`${performed.commands} commands, ${Math.round(performed.commands / seconds)} a second`);
  }
});
