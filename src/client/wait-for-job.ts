import type { GetJobQuery, JobStatus } from './api-types.ts';
import { ApiError } from './errors.ts';
import { TERMINAL } from './follow.ts';
import { Deadline, pause } from './transport.ts';

/** How long to wait for a job. */
export type WaitOptions = {
  /** Milliseconds to wait. By default there is no limit. */
  timeout?: number;
  /** Ends the wait. */
  signal?: AbortSignal;
};

type Jobs = {
  get(jobId: string, query: GetJobQuery, options: { signal: AbortSignal }): Promise<JobStatus>;
  jobEvents(jobId: string, options: { signal: AbortSignal; maxFailures: number }): AsyncIterable<unknown>;
};

const FIRST_POLL_MS = 100;
const MAX_POLL_MS = 2_000;

/** Waits on the event stream of the job. Falls back to polling, with growing pauses, when the stream is unavailable. */
export async function waitForJob(
  jobs: Jobs,
  jobId: string,
  { timeout = Number.POSITIVE_INFINITY, signal }: WaitOptions,
): Promise<JobStatus> {
  const deadline = new Deadline(timeout, signal);
  try {
    for (let pollMs = FIRST_POLL_MS; ; pollMs = Math.min(MAX_POLL_MS, pollMs * 1.5)) {
      const job = await jobs.get(jobId, { include_result: true }, { signal: deadline.signal });
      if (TERMINAL.has(job.state)) return job;
      if (!(await followToEnd(jobs, jobId, deadline.signal))) await pause(pollMs, deadline.signal);
    }
  } catch (error) {
    signal?.throwIfAborted();
    if (!deadline.hasPassed) throw error;
    const message = `Job ${jobId} has not ended within ${timeout} ms.`;
    throw new ApiError({ status: 0, code: 'TIMED_OUT', message, cause: error });
  } finally {
    deadline.clear();
  }
}

/** Returns whether the stream reached the end of the job. */
async function followToEnd(jobs: Jobs, jobId: string, signal: AbortSignal): Promise<boolean> {
  try {
    for await (const _ of jobs.jobEvents(jobId, { signal, maxFailures: 0 }));
    return true;
  } catch (error) {
    if (error instanceof ApiError) return false;
    throw error;
  }
}
