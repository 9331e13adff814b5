/**
 * The life-cycle of jobs against a model of it. Random commands of callers, workers (also those that lost a job and do not
 * know it) and keepers run on a real ledger and on `model.ts`; after each the rows must agree, at the end the histories.
 *
 * MODEL_RUNS=5000 vitest run test/model/lifecycle.test.ts    for a long run (about 30 commands a run)
 * MODEL_SEED=n MODEL_PATH=p MODEL_REPLAY=r                   to repeat a failure: its seed, path and replayPath
 */
import fc from 'fast-check';
import { beforeAll, test } from 'vitest';
import { transitions } from '../../src/core/transitions.ts';
import { useLedger } from '../ledger/fixture.ts';
import { performed } from './command.ts';
import { lifecycleProperty } from './lifecycle.ts';
import { stopClock } from './system.ts';

const { MODEL_RUNS, MODEL_SEED, MODEL_PATH, MODEL_REPLAY } = process.env;
const RUNS = Number(MODEL_RUNS ?? 90);
const timeout = 60_000 + RUNS * 1_000;

const ledger = useLedger();
beforeAll(() => stopClock(ledger));

test('whatever callers, workers, zombies and keepers do, jobs are where the model says', { timeout }, async () => {
  const startedAt = performance.now();
  const replay = MODEL_SEED === undefined ? {} : { seed: Number(MODEL_SEED), path: MODEL_PATH ?? '' };
  await fc.assert(lifecycleProperty(ledger, { replayPath: MODEL_REPLAY }), { numRuns: RUNS, ...replay });
  const seconds = (performance.now() - startedAt) / 1_000;
  if (MODEL_RUNS === undefined) return;
  console.info(`${performed.commands} commands, ${Math.round(performed.commands / seconds)} a second`);
  console.info(`edges never walked: ${unwalked().join(' ')}`);
});

function unwalked(): string[] {
  const edges = Object.values(transitions).map((transition) => transition());
  return edges.map(({ from, to, reason }) => `${from}>${to}:${reason}`).filter((edge) => !performed.edges.has(edge));
}
