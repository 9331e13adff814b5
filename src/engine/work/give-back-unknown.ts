import { ownedJobs } from '../../ledger/attempts/owned-jobs.ts';
import { returnJobs } from '../../ledger/attempts/return-jobs.ts';
import { settleJobs } from '../../ledger/attempts/settle-jobs.ts';
import type { Database } from '../../ledger/driver/database.ts';
import type { PolicyCache } from '../../ledger/jobs/intern-policies.ts';
import type { Claims } from './claims.ts';
import { settlement } from './settler.ts';

export type GiveBackParams = { database: Database; policies: PolicyCache; workerId: number; claims: Claims };

/**
 * Gives back jobs that the ledger says a worker holds and the worker does not know: the answer of their claim was lost. Jobs of a claim
 * in flight are left alone: its answer is still to come, and the worker will run them.
 */
export async function giveBackUnknown({ database, policies, workerId, claims }: GiveBackParams): Promise<void> {
  const owned = await ownedJobs(database.workers, workerId);
  // Their claims stay open: one of them may hold jobs that the worker does know.
  const closedClaims: readonly number[] = [];
  const unknown = owned.filter((job) => !claims.holds(job.leaseSeq) && !claims.isInFlight(job.claimNo));
  const unstarted = unknown.filter((job) => job.state === 'scheduled');
  if (unstarted.length > 0) await returnJobs(database.workers, { workerId, jobs: unstarted, closedClaims });
  const started = unknown.filter((job) => job.state === 'running');
  if (started.length === 0) return;
  const rows = await Promise.all(
    started.map(async (job) => {
      const policy = await policies.policyOf(job.policyId);
      return settlement({ job, policy, outcome: { kind: 'released' }, elapsedMs: 0 }).row;
    }),
  );
  await settleJobs(database.workers, { workerId, jobs: rows, by: 'lease', closedClaims });
}
