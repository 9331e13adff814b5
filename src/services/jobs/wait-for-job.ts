import { AppError } from '../../core/errors.ts';
import { isUuid } from '../../core/ids.ts';
import type { Job } from '../../core/job.ts';
import { wholeOrg } from '../../core/owner.ts';
import { isTerminal } from '../../core/states.ts';
import type { Engine } from '../../engine/engine.ts';
import { type JobView, toView } from './read-job.ts';

export type WaitParams = { orgId: string; id: string; timeoutMs: number | null; signal?: AbortSignal };

/** Returns the job once it has ended. All callers of a process share one watcher. */
export async function waitForJob(engine: Engine, params: WaitParams): Promise<JobView> {
  const { orgId, id, timeoutMs, signal } = params;
  signal?.throwIfAborted();
  if (!isUuid(id)) throw missing(id);
  const watch = engine.watcher.watch({ orgId, id: id.toLowerCase() });
  const job = await firstOf(watch.ended, { timeoutMs, signal }).finally(watch.leave);
  if (job === null) throw missing(id);
  return toView(job === 'late' ? await lastLook(engine, params) : job);
}

/** Returns `late` after the timeout. Rejects with the reason of the signal if that is aborted first. */
function firstOf(ended: Promise<Job | null>, { timeoutMs, signal }: Omit<WaitParams, 'orgId' | 'id'>): Promise<Job | null | 'late'> {
  return new Promise((resolve, reject) => {
    const timer = timeoutMs === null ? undefined : setTimeout(() => settle(() => resolve('late')), timeoutMs);
    const onAbort = () => settle(() => reject(signal?.reason));
    const settle = (act: () => void) => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', onAbort);
      act();
    };
    signal?.addEventListener('abort', onAbort);
    ended.then(
      (job) => settle(() => resolve(job)),
      (error) => settle(() => reject(error)),
    );
  });
}

/** A job that has ended since the watcher last looked is not late. Its payload and result are read only in that case. */
async function lastLook(engine: Engine, { orgId, id, timeoutMs }: WaitParams): Promise<Job> {
  const job = await engine.reader.get(wholeOrg(orgId), id);
  if (job === null) throw missing(id);
  if (isTerminal(job.state)) return (await engine.reader.get(wholeOrg(orgId), id, WHOLE)) ?? Promise.reject(missing(id));
  throw new AppError('TIMED_OUT', { message: `Job ${id} is still ${job.state} after ${timeoutMs} ms.` });
}

const WHOLE = { payload: true, result: true } as const;

const missing = (id: string) => new AppError('NOT_FOUND', { message: `Job ${id} does not exist.` });
