import { IS_SILENT, lockedWorkerText, type RescueParams } from './return-jobs.ts';
import { type Settled, type SettledJob, type SettledRow, settledOf, settleText, settleValues } from './settle-jobs.ts';
import { type Queryable, run, statement } from './statement.ts';

// Skips jobs that a transaction holds, such as one that called `assertOwned`: they are settled in a later round, and meanwhile
// keep nobody from the others.
const SETTLE_ORPHANS = statement(
  'settle_orphans',
  settleText({
    actor: 'rescuer',
    before: [lockedWorkerText('$14')],
    condition: `AND ${IS_SILENT}`,
    lock: 'FOR NO KEY UPDATE OF j SKIP LOCKED',
  }),
);

/** Ends the attempts of a worker that stopped or fell silent, unless it beat since the rescuer looked. */
export async function settleOrphans(
  db: Queryable,
  { workerId, beat, jobs }: RescueParams & { jobs: readonly SettledJob[] },
): Promise<Settled> {
  const values = settleValues({ workerId, jobs, closedClaims: [] });
  const [row] = await run<SettledRow>(db, SETTLE_ORPHANS, [...values, beat]);
  return settledOf(row);
}
