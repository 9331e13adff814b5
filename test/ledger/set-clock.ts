/** Clocks for tests to which the time matters that the machine needs for their statements. */
import { onTestFinished } from 'vitest';
import { readClock, stopClockAt } from '../../src/ledger/driver/clock.ts';
import type { TestLedger } from './fixture.ts';

/** Moves the clock on to the middle of an hour in the middle of a day in UTC, so that neither ends during a test. */
export async function moveToMidday(ledger: TestLedger): Promise<void> {
  const now = await readClock(ledger.db.api);
  const midday = new Date(now);
  midday.setUTCHours(36, 30, 0, 0);
  await ledger.moveClock(midday.getTime() - now.getTime());
}

/** Stops the clock until the test has finished. Meanwhile only the function that it returns moves it. */
export async function stopClock(ledger: TestLedger): Promise<(ms: number) => Promise<void>> {
  let nowMs = (await readClock(ledger.db.api)).getTime();
  const move = async (ms: number): Promise<void> => {
    nowMs += ms;
    await stopClockAt(ledger.db.api, new Date(nowMs));
  };
  onTestFinished(() => ledger.moveClock(0));
  await move(0);
  return move;
}
