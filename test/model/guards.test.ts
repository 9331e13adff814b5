/** Proof that the checks of this folder can fail: each lease guard is taken out of its statement, and a check must notice. */
import fc from 'fast-check';
import { beforeAll, describe, expect, test } from 'vitest';
import { IS_SILENT } from '../../src/ledger/attempts/return-jobs.ts';
import { useLedger } from '../ledger/fixture.ts';
import { useLockPatience } from '../ledger/patient.ts';
import { ZOMBIES } from './commands.ts';
import { lifecycleProperty } from './lifecycle.ts';
import { raceProperty } from './race.ts';
import { stopClock } from './system.ts';
import { guardedStatements, spoiled, unguarded } from './unguarded.ts';
import { MORE_ZOMBIE_WRITES, ZOMBIE_WRITES } from './zombie-writes.ts';

const ledger = useLedger();
useLockPatience(ledger);
beforeAll(() => stopClock(ledger));

test('every statement that is guarded by a lease has a zombie that tries it', () => {
  expect(guardedStatements()).toEqual(Object.keys(ZOMBIE_WRITES).toSorted());
});

const ZOMBIES_OF_ALL = [
  ...Object.entries(ZOMBIE_WRITES).map(([name, check]) => [name, 'whose lease was lost', check] as const),
  ...MORE_ZOMBIE_WRITES,
];

describe.each(ZOMBIES_OF_ALL)('%s and a zombie %s', (name, _, check) => {
  test('refuses it', async () => {
    await check(ledger.db.workers, ledger);
  });

  test('would let it pass without its guard', async () => {
    const outcome = check(unguarded(name)(ledger.db.workers), ledger);
    await expect(outcome).rejects.toThrow(/zombie|a heartbeat reports lost/);
  });
});

/** The statements that a model run can spoil, and what it then finds wrong. */
const IN_THE_MODEL = {
  millrace_complete_jobs: 'jobs that were finished',
  millrace_complete_late_jobs: 'jobs that were finished late',
  millrace_complete_unlocked_late_jobs: 'jobs that were finished late',
  millrace_settle_jobs: 'attempts that were ended',
  millrace_start_jobs: 'attempts that started',
  millrace_return_jobs: 'leases that were given back',
  millrace_report_progress: 'the answer to a progress report',
  millrace_save_checkpoint: 'the answer to a checkpoint',
  millrace_heartbeat: 'the answer to a heartbeat',
};

const SEED = 4;
/** With the first one, 30 runs do not meet this statement with a lost lease. */
const OTHER_SEEDS: Record<string, number> = { millrace_complete_jobs: 6 };

// A spoiled run shows in one of these ways; which comes first depends on who of several workers is asked first.
const WRONGS = new RegExp([...Object.values(IN_THE_MODEL), 'the rows of the jobs', 'jobs that nobody holds'].join('|'));

test.each(Object.keys(IN_THE_MODEL))('a model run notices that the guard of %s is gone', async (name) => {
  const property = lifecycleProperty(ledger, { mix: ZOMBIES, wire: unguarded(name) });
  const details = await fc.check(property, { seed: OTHER_SEEDS[name] ?? SEED, numRuns: 200, endOnFailure: true });
  expect(details.failed).toBe(true);
  expect(String(details.errorInstance)).toMatch(WRONGS);
});

test('a model run of the same kind finds nothing wrong while every guard is in place', async () => {
  await fc.assert(lifecycleProperty(ledger, { mix: ZOMBIES }), { seed: SEED, numRuns: 25 });
});

const STILL_RUNS = "j.state = 'running' AND j.worker_id = $1::int8";

test.each([
  ['millrace_settle_jobs', 'whether the attempt still runs', STILL_RUNS, /deeds that landed/],
  ['millrace_settle_orphans', 'whether the attempt still runs', STILL_RUNS, /deeds that landed/],
  ['millrace_settle_orphans', 'whether the worker is still silent', IS_SILENT, /a rescue after a beat/],
])('a race notices that %s no longer looks %s', async (name, _, condition, wrong) => {
  const wire = spoiled(name, (text) => text.replace(condition, () => '$1::int8 IS NOT NULL'));
  const tally = { ends: 0, rescues: 0, overlaps: 0 };
  const details = await fc.check(raceProperty(ledger, tally, wire), { seed: SEED, numRuns: 200, endOnFailure: true });
  expect(details.failed).toBe(true);
  expect(String(details.errorInstance)).toMatch(wrong);
});
