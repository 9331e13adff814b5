/**
 * The end of an attempt against its rescue, statement by statement: fast-check chooses whose BEGIN, statement or COMMIT comes
 * next, so locks are met in every order.
 *
 * MODEL_RUNS=5000 vitest run test/model/races.test.ts    for a long run
 */
import fc from 'fast-check';
import { beforeAll, expect, test } from 'vitest';
import { checkInvariants } from '../../src/ledger/upkeep/invariants.ts';
import { useLedger } from '../ledger/fixture.ts';
import { useLockPatience } from '../ledger/patient.ts';
import { raceProperty, type Tally } from './race.ts';
import { stopClock } from './system.ts';

const RUNS = Number(process.env.MODEL_RUNS ?? 200);
const timeout = 30_000 + RUNS * 1_000;

const ledger = useLedger();
useLockPatience(ledger);
beforeAll(() => stopClock(ledger));

test('of an attempt that ends and its rescues exactly one lands, whatever the order of their statements', {
  timeout,
}, async () => {
  const tally: Tally = { ends: 0, rescues: 0, overlaps: 0 };
  await fc.assert(raceProperty(ledger, tally), { numRuns: RUNS });
  expect(await checkInvariants(ledger.db.maintenance)).toEqual([]);
  if (process.env.MODEL_RUNS !== undefined) console.info(JSON.stringify(tally));
  expect(Math.min(tally.ends, tally.rescues, tally.overlaps), 'races of each kind').toBeGreaterThan(RUNS / 20);
});
