import { type Queryable, run } from '../driver/statement.ts';
import { checkHistory, type Finding } from '../history/check-history.ts';
import { checkDeliveries, type DeliveryFinding } from '../webhooks/check-deliveries.ts';
import { checkTables, type TableRow } from './check-tables.ts';
import { COUNT_ALL, readHistories } from './read-histories.ts';

export type Violation = {
  invariant: Finding['invariant'] | TableRow['invariant'] | DeliveryFinding['invariant'];
  orgId: string;
  jobId: string;
  what: string;
};

/** How far the check is. `of` is an estimate of the planner, and null while tables are compared. */
export type CheckProgress = { readonly jobs: number; readonly of: number | null };

const NO_REPORT = (): void => {};

/**
 * Returns all violations of the invariants between the tables, and the number of jobs. It reads the whole ledger in batches. Give it the
 * maintenance pool, whose planner may join large tables.
 */
export async function checkLedger(
  db: Queryable,
  onProgress: (progress: CheckProgress) => void = NO_REPORT,
): Promise<{ violations: Violation[]; jobs: number }> {
  onProgress({ jobs: 0, of: null });
  const tables = await checkTables(db);
  const violations: Violation[] = tables.map(({ invariant, org_id, job_id, what }) => ({
    invariant,
    orgId: org_id,
    jobId: job_id,
    what,
  }));
  violations.push(...(await checkDeliveries(db)));
  const [estimate] = await run<{ jobs: number }>(db, COUNT_ALL);
  let jobs = 0;
  for await (const batch of readHistories(db)) {
    for (const job of batch) for (const finding of checkHistory(job)) violations.push({ ...finding, orgId: job.orgId, jobId: job.id });
    jobs += batch.length;
    onProgress({ jobs, of: Math.max(jobs, estimate?.jobs ?? 0) });
  }
  return { violations, jobs };
}

export const checkInvariants = async (db: Queryable): Promise<Violation[]> => (await checkLedger(db)).violations;
