import { AppError, isAppError } from '../../core/errors.ts';
import { EXECUTION_TYPE } from '../../core/execution/kinds.ts';
import type { Engine } from '../../engine/engine.ts';
import { lockedQueueDepth, queueDepth } from '../../ledger/queues/queue-depth.ts';
import { Admission as QueueAdmission } from '../admission/admission.ts';

const QUEUE = 'q:default';
const RETRY_AFTER_MS = 1_000;
const QUEUE_FULL = 'RFA_EXEC_QUEUE_FULL';

const queueFull = (cause?: unknown): AppError =>
  new AppError('UNAVAILABLE', {
    message: 'The queue is full. Nothing was accepted.',
    problem: QUEUE_FULL,
    retryAfterMs: RETRY_AFTER_MS,
    cause,
  });

export const isQueueFull = (error: unknown): boolean =>
  isAppError(error, 'UNAVAILABLE') && error.problem === QUEUE_FULL;

/** Lets jobs of the execution API into the queue, or refuses them with QUEUE_FULL. */
export class Admission extends QueueAdmission {
  constructor(engine: Pick<Engine, 'database'>, { queueSize }: { queueSize: number }) {
    const waiting = { queue: QUEUE, jobType: EXECUTION_TYPE, atMost: queueSize };
    super(engine, {
      queueSize,
      depth: { read: (db) => queueDepth(db, waiting), readLocked: (db) => lockedQueueDepth(db, waiting) },
      full: (_current, cause) => queueFull(cause),
      // More waits to be written than the submitter holds: that too is a queue that is full.
      explain: (error) => (isAppError(error, 'QUOTA_EXCEEDED') ? queueFull(error) : error),
    });
  }
}
