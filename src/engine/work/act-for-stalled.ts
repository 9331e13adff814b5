import { classify } from '../../core/failure.ts';
import { type OwnedJob, ownedJobs } from '../../ledger/attempts/owned-jobs.ts';
import { returnJobs } from '../../ledger/attempts/return-jobs.ts';
import { type SettledJob, settleJobs } from '../../ledger/attempts/settle-jobs.ts';
import { startJobs } from '../../ledger/attempts/start-jobs.ts';
import type { WorkerSession } from '../../ledger/attempts/worker-session.ts';
import { PolicyCache } from '../../ledger/jobs/intern-policies.ts';
import { begunLeasesIn } from './begun-leases.ts';
import { settlement } from './settler.ts';

export type StalledParams = { session: WorkerSession; workerId: number; begun: SharedArrayBuffer };

/** What the heartbeat thread does for a main thread that stands still. */
export async function actForStalled(params: StalledParams): Promise<void> {
  const owned = await ownedJobs(params.session, params.workerId);
  await settleLeasedAhead(params, owned);
  await endOverdue(params, owned);
}

/** Jobs that were leased ahead: those whose handlers run are started, the others are left to other workers. */
async function settleLeasedAhead(
  { session, workerId, begun }: StalledParams,
  owned: readonly OwnedJob[],
): Promise<void> {
  const begunLeases = begunLeasesIn(begun);
  const ahead = owned.filter((job) => job.mayRun);
  const running = ahead.filter((job) => begunLeases.has(job.leaseSeq));
  if (running.length > 0) await startJobs(session, { workerId, jobs: running });
  const inLine = ahead.filter((job) => !begunLeases.has(job.leaseSeq));
  if (inLine.length > 0) await returnJobs(session, { workerId, jobs: inLine, closedClaims: [] });
}

/** Ends attempts that ran past their timeout while the main thread could not end them. */
async function endOverdue({ session, workerId }: StalledParams, owned: readonly OwnedJob[]): Promise<void> {
  const policies = new PolicyCache(session);
  const rows: SettledJob[] = [];
  for (const job of owned) {
    const policy = await policies.policyOf(job.policyId);
    if (job.state !== 'running' || job.runningMs === null || job.runningMs < policy.timeoutMs) continue;
    const failure = classify(new Error('the handler blocked its process past the timeout'), 'timeout');
    rows.push(settlement({ job, policy, outcome: { kind: 'failed', failure }, elapsedMs: 0 }).row);
  }
  if (rows.length > 0) await settleJobs(session, { workerId, jobs: rows, by: 'lease', closedClaims: [] });
}
