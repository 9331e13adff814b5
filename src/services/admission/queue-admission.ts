import { DELIVERY_TYPE } from '../../core/delivery-policy.ts';
import { AppError, isAppError } from '../../core/errors.ts';
import { EXECUTION_TYPE } from '../../core/execution/kinds.ts';
import type { Engine } from '../../engine/engine.ts';
import { depthBeside, lockedDepthBeside } from '../../ledger/queues/queue-depth.ts';
import { Admission } from './admission.ts';

const LIMIT = 'queue_depth';
const RETRY_AFTER_MS = 1_000;
/** Jobs of these types have a limit of their own, or are made by the system for what was admitted before. */
const OTHER_TYPES = [EXECUTION_TYPE, DELIVERY_TYPE];

/** Lets jobs of the queue API in while fewer than so many jobs wait for a worker, or refuses them with QUOTA_EXCEEDED. */
export function createQueueAdmission(
  engine: Pick<Engine, 'database'>,
  { queueSize }: { queueSize: number },
): Admission {
  const waiting = { types: OTHER_TYPES, atMost: queueSize };
  return new Admission(engine, {
    queueSize,
    depth: { read: (db) => depthBeside(db, waiting), readLocked: (db) => lockedDepthBeside(db, waiting) },
    full: (current, cause) => queueFull({ current, maximum: queueSize, cause }),
  });
}

function queueFull({ current, maximum, cause }: { current: number; maximum: number; cause?: unknown }): AppError {
  return new AppError('QUOTA_EXCEEDED', {
    message: `The queue is full: ${current} jobs wait for a worker, and at most ${maximum} may.`,
    quota: { limit: LIMIT, current, maximum, retryAfterMs: RETRY_AFTER_MS },
    cause,
  });
}

export const isQueueFull = (error: unknown): error is AppError =>
  isAppError(error, 'QUOTA_EXCEEDED') && error.quota?.limit === LIMIT;
