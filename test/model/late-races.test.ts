/**
 * A job that was leased ahead: its worker, its rescuer and a caller that cancels it, statement by statement and in every order.
 *
 * MODEL_RUNS=5000 vitest run test/model/late-races.test.ts    for a long run
 */
import fc from 'fast-check';
import { beforeAll, expect, test } from 'vitest';
import { IS_SILENT } from '../../src/ledger/attempts/return-jobs.ts';
import { MAY_RUN } from '../../src/ledger/attempts/start-jobs.ts';
import { checkInvariants } from '../../src/ledger/upkeep/invariants.ts';
import { useLedger } from '../ledger/fixture.ts';
import { useLockPatience } from '../ledger/patient.ts';
import { type LateTally, lateRaceProperty } from './late-race.ts';
import { stopClock } from './system.ts';
import { spoiled } from './unguarded.ts';

const RUNS = Number(process.env.MODEL_RUNS ?? 120);
const timeout = 30_000 + RUNS * 1_000;

const ledger = useLedger();
useLockPatience(ledger);
beforeAll(() => stopClock(ledger));

test('of what a worker does with a lease and its rescues at most one lands, whatever the order of their statements', {
  timeout,
}, async () => {
  const tally: LateTally = { own: 0, rescues: 0, overlaps: 0 };
  await fc.assert(lateRaceProperty(ledger, tally), { numRuns: RUNS });
  expect(await checkInvariants(ledger.db.maintenance)).toEqual([]);
  if (process.env.MODEL_RUNS !== undefined) console.info(JSON.stringify(tally));
  expect(Math.min(tally.own, tally.rescues, tally.overlaps), 'races of each kind').toBeGreaterThan(RUNS / 50);
});

const IS_HELD = "j.state = 'scheduled' AND j.worker_id = $1::int8";

test.each([
  ['millrace_complete_late_jobs', 'whether the job has not started', [MAY_RUN], /deeds that landed|the way that the job went/],
  ['millrace_start_jobs', 'whether the job has not started', [IS_HELD], /deeds that landed|impossible_rows_are_refused/],
  ['millrace_presume_started', 'whether the job has not started', [MAY_RUN, IS_HELD], /deeds that landed/],
  ['millrace_presume_started', 'whether the worker is still silent', [IS_SILENT], /a rescue after a beat|deeds that landed/],
])('a race notices that %s no longer looks %s', async (name, _, conditions, wrong) => {
  const without = (text: string, condition: string) => text.replaceAll(condition, () => '$1::int8 IS NOT NULL');
  const wire = spoiled(name, (text) => conditions.reduce(without, text));
  const tally: LateTally = { own: 0, rescues: 0, overlaps: 0 };
  const details = await fc.check(lateRaceProperty(ledger, tally, wire), { seed: 1, numRuns: 300, endOnFailure: true });
  expect(details.failed).toBe(true);
  expect(String(details.errorInstance)).toMatch(wrong);
});
