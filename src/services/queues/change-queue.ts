import { AppError, invalidRequest } from '../../core/errors.ts';
import { NIL_ORG_ID, type Requester } from '../../core/governance/audit-action.ts';
import { checkQueueSettings, type QueueSettingsChange } from '../../core/governance/queue-settings.ts';
import { Issues } from '../../core/issues.ts';
import { DEAD_LETTER_QUEUE } from '../../core/submission-fields.ts';
import type { Engine } from '../../engine/engine.ts';
import { recordActions } from '../../ledger/audit/record-action.ts';
import { inTransaction } from '../../ledger/driver/database.ts';
import { configureQueue, lockQueues, type Queue, type QueueChange } from '../../ledger/queues/queues.ts';
import { noSuchQueue } from './read-queues.ts';

type Request = { readonly name: string; readonly requester: Requester };

/** Changes settings of a queue. Other processes see it within a second. */
export async function changeQueue(engine: Engine, { name, requester, change }: Request & { change: QueueSettingsChange }): Promise<void> {
  const issues = new Issues();
  checkQueueSettings(change, issues);
  issues.throwIfAny();
  if (Object.values(change).every((value) => value === undefined)) {
    const message = 'give at least one of order, concurrency, rate, depth_cap, slo_seconds and reserved_share';
    throw invalidRequest({ field: 'body', code: 'REQUIRED', message });
  }
  await write(engine, { name, requester, event: 'queue.changed', change, details: change });
}

/** Starts no more jobs of the queue. Running jobs continue. */
export const pauseQueue = (engine: Engine, request: Request): Promise<void> =>
  write(engine, { ...request, event: 'queue.paused', change: { paused: true } });

/** Ends a pause and a drain. */
export const resumeQueue = (engine: Engine, request: Request): Promise<void> =>
  write(engine, { ...request, event: 'queue.resumed', change: { paused: false, draining: false } });

/** Accepts no new job in the queue. The jobs that wait there still run. */
export const drainQueue = (engine: Engine, request: Request): Promise<void> =>
  write(engine, { ...request, event: 'queue.draining', change: { draining: true } });

type Write = Request & { event: string; change: Omit<QueueChange, 'name'>; details?: object };

async function write(engine: Engine, { name, requester, event, change, details }: Write): Promise<void> {
  await inTransaction(engine.database.api, async (client) => {
    const queues = await lockQueues(client);
    if (!queues.some((queue) => queue.name === name))
      throw noSuchQueue(
        name,
        queues.map((queue) => queue.name),
      );
    if (name === DEAD_LETTER_QUEUE) {
      throw new AppError('CONFLICT', {
        message: `${name} shows the dead letters. It starts no jobs, so it cannot be changed, paused or drained.`,
      });
    }
    checkShares(queues, name, change);
    await configureQueue(client, { ...change, name });
    await recordActions(client, [{ orgId: NIL_ORG_ID, event, requester, details: { queue: name, ...details } }]);
  });
  await engine.catalogue.refresh();
  engine.hint('catalogue');
  engine.hint('ready');
}

/** Together, the queues cannot reserve more than all slots. */
function checkShares(queues: readonly Queue[], name: string, { reservedShare }: Pick<QueueChange, 'reservedShare'>): void {
  if (reservedShare == null) return;
  const others = queues.reduce((sum, queue) => sum + (queue.name === name ? 0 : (queue.reservedShare ?? 0)), 0);
  if (others + reservedShare <= 1 + 1e-9) return;
  const left = Math.max(0, Math.round((1 - others) * 1_000) / 1_000);
  const message = `must be at most ${left}: the other queues reserve ${Math.round(others * 1_000) / 1_000} of the slots`;
  throw invalidRequest({ field: 'reserved_share', code: 'OUT_OF_RANGE', message });
}
