/** Jobs that a worker leased ahead: it may call their handlers before their start is written. */
import { leaseAhead } from '../../src/ledger/attempts/claim-jobs.ts';
import type { LateJob } from '../../src/ledger/attempts/complete-jobs.ts';
import { type LeasedTestJob, rangesOf, type TestJob, type TestLedger } from './fixture.ts';

let claimNo = 1_000_000;

/** Leases the first job of this job's type ahead; a type of its own makes it this job. */
export async function leaseOneAhead(ledger: TestLedger, job: TestJob, workerId?: number): Promise<LeasedTestJob> {
  const worker = workerId ?? (await ledger.registerWorker());
  const asked = { workerId: worker, ranges: rangesOf(job), limit: 1, claimNo: ++claimNo };
  const [leased] = (await leaseAhead(ledger.db.workers, asked)).jobs;
  if (leased === undefined) throw new Error(`job ${job.seq} could not be leased`);
  return { ...job, leaseSeq: leased.leaseSeq, workerId: worker };
}

/** A worker leases a new job ahead. */
export async function newJobAhead(ledger: TestLedger, overrides: Parameters<TestLedger['submitOne']>[0] = {}): Promise<LeasedTestJob> {
  return leaseOneAhead(ledger, await ledger.submitOne(overrides));
}

export const lateJob = ({ orgId, seq, leaseSeq }: LeasedTestJob, spans: Partial<LateJob> = {}): LateJob => ({
  orgId,
  seq,
  leaseSeq,
  result: '{"ok":true}',
  agoMs: 0,
  ranMs: 0,
  ...spans,
});
