import { setTimeout as delay } from 'node:timers/promises';
import type { StreamEntry, StreamLog } from '../../core/ingest/stream.ts';
import type { Engine } from '../../engine/engine.ts';
import { requireIngestJob } from './read-jobs.ts';

const PAGE = 500;
const FOLLOW_MS = 250;

export type LogReading = {
  readonly jobId: string;
  readonly orgId: string;
  readonly from: number;
  /** Waits for further lines until the job has ended. */
  readonly follows: boolean;
  readonly signal: AbortSignal;
};

type Parts = Pick<Engine, 'database'> & { readonly streams: StreamLog };

/** The lines of a job, oldest first, in pages. Without `follows` it ends with the last line that is there. */
export async function* readLog(parts: Parts, { jobId, orgId, from, follows, signal }: LogReading): AsyncGenerator<StreamEntry[]> {
  let next = from;
  for (;;) {
    if (signal.aborted) return;
    // Before the lines are read, so that the last line of a job that has ended is among them.
    const isOver = !follows || (await hasEnded(parts, { jobId, orgId }));
    const lines = await parts.streams.read({ stream: 'jobs.logs', jobId, orgId, from: next, limit: PAGE });
    if (lines.length > 0) yield lines;
    next = (lines.at(-1)?.offset ?? next - 1) + 1;
    if (lines.length === PAGE) continue;
    if (isOver) return;
    await delay(FOLLOW_MS, undefined, { signal }).catch(() => {});
  }
}

/** A job has ended when its sums are written and its handler has finished. */
async function hasEnded(parts: Parts, { jobId, orgId }: { jobId: string; orgId: string }): Promise<boolean> {
  try {
    const { settledAt, status, finalizer } = await requireIngestJob(parts, { orgId }, jobId);
    return settledAt !== null && (status === 'completed' || status === 'failed') && finalizer !== 'in_progress';
  } catch {
    return true;
  }
}
