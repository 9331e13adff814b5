import type { Database } from '../ledger/database.ts';
import type { PolicyCache } from '../ledger/intern-policies.ts';
import { ownedJobs } from '../ledger/owned-jobs.ts';
import { settleJobs } from '../ledger/settle-jobs.ts';
import type { Claims } from './claims.ts';
import { settlement } from './settler.ts';

export type GiveBackParams = { database: Database; policies: PolicyCache; workerId: number; claims: Claims };

/** Gives back what the ledger says a worker holds and the worker does not know of: the answer that told it was lost. */
export async function giveBackUnknown({ database, policies, workerId, claims }: GiveBackParams): Promise<void> {
  const owned = await ownedJobs(database.workers, workerId);
  const unknown = owned.filter((job) => job.state === 'running' && !claims.holds(job.leaseSeq));
  if (unknown.length === 0) return;
  const rows = await Promise.all(
    unknown.map(async (job) => {
      const policy = await policies.policyOf(job.policyId);
      return settlement({ job, policy, outcome: { kind: 'released' }, elapsedMs: 0 }).row;
    }),
  );
  // Their claims stay open: one of them may hold jobs that the worker does know.
  await settleJobs(database.workers, { workerId, jobs: rows, by: 'lease', closedClaims: [] });
}
