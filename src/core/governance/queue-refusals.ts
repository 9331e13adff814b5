import { AppError } from '../errors.ts';

const DRAIN_RETRY_MS = 60_000;
const FULL_RETRY_MS = 1_000;

/** The queue accepts no new job until an operator resumes it. */
export const queueDraining = (queue: string): AppError =>
  new AppError('QUOTA_EXCEEDED', {
    message: `Queue ${queue} is draining: it accepts no new jobs until an operator resumes it. Use another queue, or try again later.`,
    quota: { limit: 'queue_draining', current: 0, maximum: 0, retryAfterMs: DRAIN_RETRY_MS },
  });

/** As many jobs wait in the queue as may wait there. */
export const queueAtDepth = (queue: string, { current, maximum }: { current: number; maximum: number }): AppError =>
  new AppError('QUOTA_EXCEEDED', {
    message: `Queue ${queue} is full: ${current} jobs are waiting there, and its depth_cap is ${maximum}. Try again when some of them have started.`,
    quota: { limit: 'queue_depth_cap', current, maximum, retryAfterMs: FULL_RETRY_MS },
  });
