import { DELIVERY_TYPE } from '../../core/delivery-policy.ts';
import { AppError } from '../../core/errors.ts';
import { EXECUTION_TYPE } from '../../core/execution/kinds.ts';
import type { Engine } from '../../engine/engine.ts';
import { depthBeside, lockedDepthBeside, lockedQueueDepth, queueDepth } from '../../ledger/queues/queue-depth.ts';
import { Admission } from './admission.ts';

const LIMIT = 'queue_depth';
const RETRY_AFTER_MS = 1_000;
/** These types are not counted: executions have their own limit, and deliveries belong to jobs that were admitted before. */
const OTHER_TYPES = [EXECUTION_TYPE, DELIVERY_TYPE];

/** The limit of the queue API: refuses jobs with QUOTA_EXCEEDED when `queueSize` jobs wait for a worker. */
export function createQueueAdmission(engine: Pick<Engine, 'database'>, { queueSize }: { queueSize: number }): Admission {
  const waiting = { types: OTHER_TYPES, atMost: queueSize };
  return new Admission(engine, {
    queueSize,
    depth: { read: (db) => depthBeside(db, waiting), readLocked: (db) => lockedDepthBeside(db, waiting) },
    full: (current, cause) => queueFull({ current, maximum: queueSize, cause }),
  });
}

function queueFull({ current, maximum, cause }: { current: number; maximum: number; cause?: unknown }): AppError {
  return new AppError('QUOTA_EXCEEDED', {
    message: `The queue is full: ${current} jobs are waiting for a worker, and the limit is ${maximum}. Try again later.`,
    quota: { limit: LIMIT, current, maximum, retryAfterMs: RETRY_AFTER_MS },
    cause,
  });
}

/** The limit of the execution API: refuses jobs with RFA_EXEC_QUEUE_FULL when `queueSize` executions wait for a worker. */
export function createExecutionAdmission(engine: Pick<Engine, 'database'>, { queueSize }: { queueSize: number }): Admission {
  const waiting = { queue: 'q:default', jobType: EXECUTION_TYPE, atMost: queueSize };
  return new Admission(engine, {
    queueSize,
    depth: { read: (db) => queueDepth(db, waiting), readLocked: (db) => lockedQueueDepth(db, waiting) },
    full: (_current, cause) => executionQueueFull(cause),
    isOverflowFull: true,
  });
}

const executionQueueFull = (cause?: unknown): AppError =>
  new AppError('UNAVAILABLE', {
    message: 'The queue is full. Nothing was accepted.',
    problem: 'RFA_EXEC_QUEUE_FULL',
    retryAfterMs: RETRY_AFTER_MS,
    cause,
  });
