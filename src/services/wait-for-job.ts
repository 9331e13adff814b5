import { AppError } from '../core/errors.ts';
import { isTerminal } from '../core/states.ts';
import type { Engine } from '../engine/engine.ts';
import { type JobView, readJob } from './read-job.ts';

export type WaitParams = { orgId: string; timeoutMs: number | null; signal?: AbortSignal };

const FIRST_POLL_MS = 25;
const MAX_POLL_MS = 1_000;

/** Answers when the job has ended. Hears at once of jobs that end in this process, and polls for the rest. */
export async function waitForJob(engine: Engine, id: string, params: WaitParams): Promise<JobView> {
  const deadlineMs = params.timeoutMs === null ? Number.POSITIVE_INFINITY : performance.now() + params.timeoutMs;
  let wake = () => {};
  const stops = (['completed', 'failed', 'cancelled'] as const).map((event) =>
    engine.events.on(event, (facts) => {
      if (facts.jobId === id) wake();
    }),
  );
  const onAbort = () => wake();
  params.signal?.addEventListener('abort', onAbort);
  try {
    for (let pollMs = FIRST_POLL_MS; ; pollMs = Math.min(MAX_POLL_MS, pollMs * 1.5)) {
      params.signal?.throwIfAborted();
      const woken = new Promise<void>((resolve) => {
        wake = resolve;
      });
      const job = await readJob(engine, id, { orgId: params.orgId, includeResult: true });
      if (job === null) throw new AppError('NOT_FOUND', { message: `Job ${id} does not exist.` });
      if (isTerminal(job.state)) return job;
      const leftMs = deadlineMs - performance.now();
      if (leftMs <= 0)
        throw new AppError('TIMED_OUT', { message: `Job ${id} is still ${job.state} after ${params.timeoutMs} ms.` });
      await sleepUnless(woken, Math.min(pollMs, leftMs));
    }
  } finally {
    for (const stop of stops) stop();
    params.signal?.removeEventListener('abort', onAbort);
  }
}

async function sleepUnless(woken: Promise<void>, delayMs: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  await Promise.race([woken, new Promise((resolve) => (timer = setTimeout(resolve, delayMs)))]);
  clearTimeout(timer);
}
