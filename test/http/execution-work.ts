/** Work for the execution API, and the parts that workers play in it where a test plays them itself. */
import { EXECUTION_TYPE } from '../../src/core/execution/kinds.ts';
import { claimAndStart } from '../../src/ledger/attempts/claim-and-start.ts';
import { claimJobs } from '../../src/ledger/attempts/claim-jobs.ts';
import type { LeasedTestJob, TestJob, TestLedger } from '../ledger/fixture.ts';
import { rangesOf } from '../ledger/fixture.ts';

/** Longer than any test that wants to find it running. */
export const LONG = 'RUNS_LONG';

const HOUR = 3_600_000;

/** A time for `execution_at`, counted from now. */
export const at = (ms: number): string => new Date(Date.now() + ms).toISOString();

export const inAnHour = (): string => at(HOUR);

const ranges = rangesOf({ jobType: EXECUTION_TYPE });

/** The row of a job that was submitted through the API. */
export async function jobOf(ledger: TestLedger, orgId: string, id: string): Promise<TestJob> {
  return { projectId: null, orgId, id, seq: Number((await ledger.rowOf({ orgId, id })).seq), jobType: EXECUTION_TYPE };
}

let claimNo = 1_000_000;

const asked = (workerId: number) => ({ workerId, ranges, limit: 1, claimNo: ++claimNo });

/** What a worker gets that asks for one job: its lease, or null. The attempt does not start. */
export async function claimOne(ledger: TestLedger): Promise<LeasedTestJob | null> {
  const workerId = await ledger.registerWorker();
  const [job] = (await claimJobs(ledger.db.workers, asked(workerId))).jobs;
  return job === undefined ? null : { ...job, workerId };
}

/** The same, and the attempt starts. */
export async function startOne(ledger: TestLedger): Promise<LeasedTestJob | null> {
  const workerId = await ledger.registerWorker();
  const [job] = (await claimAndStart(ledger.db.workers, asked(workerId))).jobs;
  return job === undefined ? null : { ...job, workerId };
}

export type Event = { prev_state: string | null; next_state: string; event_name: string; timestamp: string };

/** Each event begins where the one before it ended, and the first where nothing was. */
export function isChain(events: readonly Event[]): boolean {
  return events.every(({ prev_state }, index) => prev_state === (events[index - 1]?.next_state ?? null));
}
