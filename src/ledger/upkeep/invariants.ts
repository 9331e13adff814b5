import { type Queryable, run } from '../driver/statement.ts';
import { checkHistory, type Finding } from '../history/check-history.ts';
import { checkDeliveries, type DeliveryFinding } from '../webhooks/check-deliveries.ts';
import { checkTables, type TableRow } from './check-tables.ts';
import { ESTIMATE, readHistories } from './read-histories.ts';

export type Violation = {
  invariant: Finding['invariant'] | TableRow['invariant'] | DeliveryFinding['invariant'];
  orgId: string;
  jobId: string;
  what: string;
};

/** How many jobs have been read. `of` is an estimate of all jobs, and null while tables are compared. */
type CheckProgress = { readonly jobs: number; readonly of: number | null };

const NO_REPORT = (): void => {};

/**
 * Returns all violations of the invariants between the tables. It reads the whole ledger in batches and reports its progress after each.
 * Give it the maintenance pool, whose planner may join large tables.
 */
export async function checkInvariants(db: Queryable, onProgress: (progress: CheckProgress) => void = NO_REPORT): Promise<Violation[]> {
  onProgress({ jobs: 0, of: null });
  const tables = await checkTables(db);
  const violations: Violation[] = tables.map(({ invariant, org_id, job_id, what }) => ({
    invariant,
    orgId: org_id,
    jobId: job_id,
    what,
  }));
  violations.push(...(await checkDeliveries(db)));
  const [estimate] = await run<{ jobs: number }>(db, ESTIMATE);
  let jobs = 0;
  for await (const batch of readHistories(db)) {
    for (const job of batch) for (const finding of checkHistory(job)) violations.push({ ...finding, orgId: job.orgId, jobId: job.id });
    jobs += batch.length;
    onProgress({ jobs, of: Math.max(jobs, estimate?.jobs ?? 0) });
  }
  return violations;
}
