import { DELIVERY_TYPE } from '../../core/delivery-policy.ts';
import { AppError } from '../../core/errors.ts';
import { EXECUTION_TYPE } from '../../core/execution/kinds.ts';
import { DEFAULT_ORG_SHARE } from '../../core/fair-share.ts';
import { MAINTENANCE_TYPE } from '../../core/maintenance.ts';
import type { Engine } from '../../engine/engine.ts';
import { depthBeside, depthByOrg, lockedDepthBeside, lockedDepthByOrg } from '../../ledger/queues/queue-depth.ts';
import { Admission, type OrgShare } from './admission.ts';
import { QueueDepths } from './queue-depths.ts';
import type { StoredLimit } from './stored-limit.ts';

export type QueueLimits = {
  readonly queueSize: number;
  /** The part of the queue that one org may fill while it is alone. */
  readonly orgShare?: number;
  readonly stored?: StoredLimit;
};

const RETRY_AFTER_MS = 1_000;
/** These types are not counted: executions have their own limit, and deliveries belong to jobs that were admitted before. */
const OTHER_TYPES = [EXECUTION_TYPE, DELIVERY_TYPE, MAINTENANCE_TYPE];

/** The limit of the queue API: refuses jobs with QUOTA_EXCEEDED when `queueSize` jobs wait for a worker. */
export function createQueueAdmission(engine: Pick<Engine, 'database'>, limits: QueueLimits): Admission {
  const { queueSize, orgShare = DEFAULT_ORG_SHARE, stored } = limits;
  const waiting = { types: OTHER_TYPES, atMost: queueSize };
  return new Admission(engine, {
    queueSize,
    orgShare,
    stored,
    depths: new QueueDepths(engine.database),
    depth: { read: (db) => depthBeside(db, waiting), readLocked: (db) => lockedDepthBeside(db, waiting) },
    full: (current, cause) => queueFull({ current, maximum: queueSize, cause }),
    overShare: (share) =>
      new AppError('QUOTA_EXCEEDED', {
        message: shareMessage(share),
        quota: { limit: 'org_queue_depth', ...share, retryAfterMs: RETRY_AFTER_MS },
      }),
  });
}

function queueFull({ current, maximum, cause }: { current: number; maximum: number; cause?: unknown }): AppError {
  return new AppError('QUOTA_EXCEEDED', {
    message: `The queue is full: ${current} jobs are waiting for a worker, and the limit is ${maximum}. Try again later.`,
    quota: { limit: 'queue_depth', current, maximum, retryAfterMs: RETRY_AFTER_MS },
    cause,
  });
}

const shareMessage = ({ current, maximum }: OrgShare): string =>
  `${current} jobs of the org are waiting for a worker, and its share of the queue is ${maximum} (limits.queue_size, limits.org_share). Try again when some of them have started.`;

/** The limit of the execution API: refuses jobs with RFA_EXEC_QUEUE_FULL when `queueSize` executions wait for a worker. */
export function createExecutionAdmission(engine: Pick<Engine, 'database'>, limits: QueueLimits): Admission {
  const { queueSize, orgShare = DEFAULT_ORG_SHARE, stored } = limits;
  const waiting = { queue: 'q:default', jobType: EXECUTION_TYPE, atMost: queueSize };
  return new Admission(engine, {
    queueSize,
    orgShare,
    stored,
    depth: { read: (db) => depthByOrg(db, waiting), readLocked: (db) => lockedDepthByOrg(db, waiting) },
    full: (_current, cause) => executionQueueFull('The queue is full. Nothing was accepted.', cause),
    overShare: (share) => executionQueueFull(shareMessage(share)),
    refusedByQueue: (refusal) => executionQueueFull(refusal.message, refusal),
    isOverflowFull: true,
  });
}

const executionQueueFull = (message: string, cause?: unknown): AppError =>
  new AppError('UNAVAILABLE', { message, problem: 'RFA_EXEC_QUEUE_FULL', retryAfterMs: RETRY_AFTER_MS, cause });
