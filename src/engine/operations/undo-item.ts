import type pg from 'pg';
import { recordActions } from '../../ledger/audit/record-action.ts';
import { disconnectDeadJob, lockEntry, lockFreeJob, reopenEntry } from '../../ledger/dead-letters/resolve-entry.ts';
import { undoRetry } from '../../ledger/dead-letters/undo-retry.ts';
import { onTransactionEnd } from '../../ledger/driver/transaction-end.ts';
import { cancelJobs } from '../../ledger/jobs/cancel-jobs.ts';
import type { Operation } from '../../ledger/operations/operation-row.ts';
import type { Item, ItemChange } from '../../ledger/operations/step-operation.ts';
import type { Moves } from '../report-moves.ts';
import { requesterOf, type StepParts } from './operation-steps.ts';

type Undo = { operation: Operation; item: Item; moves: Moves };

const UNDONE = 'Undone before the job started.';

/** Null: it cannot be taken back, so the item stays as it is. `held`: another transaction holds the job or its entry for a moment. */
type Undone = ItemChange | 'held' | null;

/** Takes back what an operation did with one job. */
export function undoItem(parts: StepParts, client: pg.PoolClient, undo: Undo): Promise<Undone> {
  if (undo.operation.action === 'discard') return undoDiscard(client, undo);
  if (undo.operation.action === 'fix_forward') return undoFix(parts, client, undo);
  return undoRetried(parts, client, undo);
}

async function undoDiscard(client: pg.PoolClient, { operation, item }: Undo): Promise<Undone> {
  const { orgId, id: operationId } = operation;
  const locked = await lockEntry(client, operation, item.jobId, { waits: false });
  if (locked.kind === 'held') return 'held';
  if (locked.kind !== 'locked' || locked.entry.status !== 'discarded') return null;
  if (!(await reopenEntry(client, locked.entry, operationId))) return null;
  const { projectId, type: jobType } = locked.entry;
  const details = { operation_id: operationId };
  await recordActions(client, [
    { orgId, projectId, event: 'deadletter.restored', requester: requesterOf(operation), jobId: item.jobId, jobType, details },
  ]);
  return { n: item.n, result: 'succeeded', isUndone: true };
}

async function undoRetried(parts: StepParts, client: pg.PoolClient, { operation, item, moves }: Undo): Promise<Undone> {
  if ((await lockFreeJob(client, operation, item.jobId)).kind === 'held') return 'held';
  const to = item.fromState === 'failed' ? 'failed' : 'dead_letter';
  const undone = await undoRetry(client, { orgId: operation.orgId, jobId: item.jobId, to, actor: operation.actor });
  if (undone === null) return null;
  moves.push(undone.moved);
  if (undone.isAwaited) onTransactionEnd(client, () => parts.onCancelled());
  return { n: item.n, result: 'skipped', error: UNDONE, isUndone: true };
}

async function undoFix(parts: StepParts, client: pg.PoolClient, { operation, item, moves }: Undo): Promise<Undone> {
  const { orgId, actor } = operation;
  if (item.newJobId === null) return null;
  // The old job first, as everywhere.
  const old = await lockEntry(client, operation, item.jobId, { waits: false });
  if (old.kind === 'held') return 'held';
  if (old.kind !== 'locked' || old.entry.replacedByJobId !== item.newJobId) return null;
  const job = await lockFreeJob(client, operation, item.newJobId);
  if (job.kind === 'held') return 'held';
  const mayCancel = job.kind === 'locked' && !job.isClaimed && ['pending', 'delayed', 'scheduled'].includes(job.state);
  if (!mayCancel) return null;
  const how = { reason: 'the operation was undone', actor, force: false };
  const [cancelled] = await cancelJobs(client, { orgId, projectId: null, ids: [item.newJobId], ...how });
  moves.push(cancelled?.moved);
  await disconnectDeadJob(client, old.entry);
  await reopenEntry(client, old.entry);
  onTransactionEnd(client, () => parts.onCancelled());
  return { n: item.n, result: 'skipped', error: UNDONE, isUndone: true };
}
