/** Proof that the checks of this folder can fail: each lease guard is taken out of its statement, and a check must notice. */
import fc from 'fast-check';
import { beforeAll, describe, expect, test } from 'vitest';
import { useLedger } from '../ledger/fixture.ts';
import { lifecycleProperty } from './lifecycle.ts';
import { raceProperty } from './race.ts';
import { stopClock } from './system.ts';
import { guardedStatements, spoiled, unguarded } from './unguarded.ts';
import { ZOMBIE_WRITES } from './zombie-writes.ts';

const ledger = useLedger();
beforeAll(() => stopClock(ledger));

test('every statement that is guarded by a lease has a zombie that tries it', () => {
  expect(guardedStatements()).toEqual(Object.keys(ZOMBIE_WRITES).toSorted());
});

describe.each(Object.entries(ZOMBIE_WRITES))('%s', (name, check) => {
  test('refuses a zombie', async () => {
    await check(ledger.db.workers, ledger);
  });

  test('would let it pass without its guard', async () => {
    const outcome = check(unguarded(name)(ledger.db.workers), ledger);
    await expect(outcome).rejects.toThrow(/zombie|a heartbeat reports lost/);
  });
});

/** Those whose statement goes the way that a model run can spoil. */
const IN_THE_MODEL = [
  'millrace_advance_jobs',
  'millrace_settle_jobs',
  'millrace_start_jobs',
  'millrace_return_jobs',
  'millrace_report_progress',
  'millrace_save_checkpoint',
  'millrace_heartbeat',
];

const SEED = 1;
const RUNS = 200;

test.each(IN_THE_MODEL)('the model run notices that the guard of %s is gone', async (name) => {
  const property = lifecycleProperty(ledger, { wire: unguarded(name) });
  const details = await fc.check(property, { seed: SEED, numRuns: RUNS, endOnFailure: true });
  if (process.env.MODEL_RUNS) console.info(name, details.numRuns, String(details.errorInstance).slice(0, 120));
  expect(details.failed).toBe(true);
});

test.each([
  ['millrace_settle_jobs', "AND j.state = 'running' AND j.worker_id = $1::int8"],
  ['millrace_settle_orphans', "AND j.state = 'running' AND j.worker_id = $1::int8"],
])('the race notices that %s no longer looks whether the attempt still runs', async (name, condition) => {
  const wire = spoiled(name, (text) => text.replace(condition, 'AND $1::int8 IS NOT NULL'));
  const tally = { ends: 0, rescues: 0, overlaps: 0 };
  const details = await fc.check(raceProperty(ledger, tally, wire), { seed: SEED, numRuns: 100, endOnFailure: true });
  expect(details.failed).toBe(true);
});
