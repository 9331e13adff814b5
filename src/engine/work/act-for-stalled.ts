import { classify } from '../../core/failure.ts';
import { type OwnedJob, ownedJobs } from '../../ledger/attempts/owned-jobs.ts';
import { returnJobs } from '../../ledger/attempts/return-jobs.ts';
import { type SettledJob, settleJobs } from '../../ledger/attempts/settle-jobs.ts';
import { startJobs } from '../../ledger/attempts/start-jobs.ts';
import type { WorkerSession } from '../../ledger/attempts/worker-session.ts';
import { PolicyCache } from '../../ledger/jobs/intern-policies.ts';
import { settlement } from './settlement.ts';
import { lateStartLeasesIn } from './thread-memory.ts';

export type StalledParams = { session: WorkerSession; workerId: number; lateStartLeases: SharedArrayBuffer };

/** An attempt that ran past its timeout while the main thread was blocked. */
export type OverdueAttempt = { jobId: string; jobType: string; leaseSeq: number; timeoutMs: number };

/** What the heartbeat thread does while the main thread is blocked. Returns the attempts that it ended. */
export async function actForStalled(params: StalledParams): Promise<OverdueAttempt[]> {
  const owned = await ownedJobs(params.session, params.workerId);
  await settleLeasedAhead(params, owned);
  return endOverdue(params, owned);
}

/** Starts jobs that were leased ahead and whose handlers run. Returns the others, so that other workers can run them. */
async function settleLeasedAhead({ session, workerId, lateStartLeases }: StalledParams, owned: readonly OwnedJob[]): Promise<void> {
  const withHandler = lateStartLeasesIn(lateStartLeases);
  const ahead = owned.filter((job) => job.mayRun);
  const running = ahead.filter((job) => withHandler.has(job.leaseSeq));
  if (running.length > 0) await startJobs(session, { workerId, jobs: running });
  const waiting = ahead.filter((job) => !withHandler.has(job.leaseSeq));
  if (waiting.length > 0) await returnJobs(session, { workerId, jobs: waiting, closedClaims: [] });
}

/** Ends attempts that ran past their timeout while the main thread was blocked. */
async function endOverdue({ session, workerId }: StalledParams, owned: readonly OwnedJob[]): Promise<OverdueAttempt[]> {
  const policies = new PolicyCache(session);
  const rows: SettledJob[] = [];
  const overdue: OverdueAttempt[] = [];
  for (const job of owned) {
    const policy = await policies.policyOf(job.policyId);
    if (job.state !== 'running' || job.runningMs === null || job.runningMs < policy.timeoutMs) continue;
    const failure = classify(new Error('the handler blocked the event loop of its process past its timeout'), 'timeout');
    rows.push(settlement({ job, policy, outcome: { kind: 'failed', failure }, elapsedMs: 0 }).row);
    overdue.push({ jobId: job.id, jobType: job.jobType, leaseSeq: job.leaseSeq, timeoutMs: policy.timeoutMs });
  }
  if (rows.length > 0) await settleJobs(session, { workerId, jobs: rows, by: 'lease', closedClaims: [] });
  return overdue;
}
