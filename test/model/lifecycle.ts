/** One life of a ledger and its model, from the first submission until everybody is dead. */
import fc from 'fast-check';
import { expect } from 'vitest';
import type { TestLedger } from '../ledger/fixture.ts';
import { performed } from './command.ts';
import { commandsOf, EVERYTHING, type Mix } from './commands.ts';
import { compareHistories, compareHoldings, compareRows } from './compare.ts';
import { settleDown } from './keeper-commands.ts';
import { begin, type Wire } from './system.ts';

export type LifecycleOptions = { mix?: Mix; wire?: Wire; replayPath?: string };

export function lifecycleProperty(ledger: TestLedger, { mix = EVERYTHING, wire, replayPath }: LifecycleOptions) {
  return fc.asyncProperty(commandsOf(mix, replayPath), async (drawn) => {
    const { model, real } = await begin(ledger, wire);
    await fc.asyncModelRun(() => ({ model, real }), drawn);
    await compareHoldings(model, real);
    await compareHistories(model, real);
    await settleDown(model, real);
    await compareRows(model, real);
    await compareHistories(model, real);
    for (const { from, to, reason } of model.jobs.flatMap((job) => job.history)) performed.edges.add(`${from}>${to}:${reason}`);
    const stuck = model.jobs.filter((job) => job.holder !== null || ['delayed', 'retrying'].includes(job.state));
    expect(stuck, 'jobs that nobody will move').toEqual([]);
  });
}
