/**
 * A cron schedule over both changes of the clocks in a year. In Berlin the hour from 2 to 3 is missing on 29 March 2026, and comes twice
 * on 25 October. The run of half past two comes at the end of the gap, and only once when the hour is repeated. The test clock moves from
 * run to run, so the program does not wait. A handler reads the planned time of its run from `context.plannedAt`.
 */
import assert from 'node:assert/strict';
import { openTestMillrace } from '../src/testing/index.ts'; // In your program: from 'millrace/testing'

type Jobs = { report: { payload: { region: string } } };

const berlin = new Intl.DateTimeFormat('sv-SE', { timeZone: 'Europe/Berlin', dateStyle: 'short', timeStyle: 'short' });

async function overThreeDays(startAt: Date): Promise<void> {
  const mill = await openTestMillrace<Jobs>({ startAt });
  const planned: Date[] = [];
  mill.register({
    type: 'report',
    handler: ({ plannedAt }) => {
      assert(plannedAt !== null, 'a schedule submitted this job');
      planned.push(plannedAt);
    },
  });
  await mill.millrace.schedule('nightly', {
    cron: '30 2 * * *',
    timeZone: 'Europe/Berlin',
    overlap: 'skip',
    submission: { type: 'report', payload: { region: 'north' } },
  });
  const expected = await mill.millrace.cron.next('nightly', 3);
  await mill.fastForward('3d');
  for (const time of planned) console.log(`${time.toISOString()} is ${berlin.format(time)} in Berlin`);
  console.log(`as next() said: ${planned.join() === expected.join()}`);
  await mill.close();
}

await overThreeDays(new Date('2026-03-27T12:00:00Z'));
await overThreeDays(new Date('2026-10-23T12:00:00Z'));
