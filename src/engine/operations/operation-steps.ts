import type pg from 'pg';
import type { Failure } from '../../core/failure.ts';
import type { AuditAction, Requester } from '../../core/governance/audit-action.ts';
import type { OperationAction } from '../../core/governance/operation.ts';
import { isUuid } from '../../core/ids.ts';
import { publicFailure } from '../../core/public-failure.ts';
import { isTerminal } from '../../core/states.ts';
import { lockFreeJob } from '../../ledger/dead-letters/resolve-entry.ts';
import { onTransactionEnd } from '../../ledger/driver/transaction-end.ts';
import { cancelFreeJobs } from '../../ledger/jobs/cancel-jobs.ts';
import { retryJob } from '../../ledger/jobs/retry-jobs.ts';
import type { Operation } from '../../ledger/operations/operation-row.ts';
import type { FollowedItem, Item, ItemChange } from '../../ledger/operations/step-operation.ts';
import type { Moves } from '../report-moves.ts';
import type { DeadLetterDesk, Refusal } from './dead-letter-desk.ts';

export type StepParts = {
  readonly desk: DeadLetterDesk;
  onRetried(state: 'scheduled' | 'delayed'): void;
  onCancelled(): void;
};

const MAX_ERROR = 500;

export const requesterOf = ({ actor, requestId, reason }: Operation): Requester => ({ actor, requestId, reason });

/** Acts on one job of an operation. Null: another transaction holds the job, so it stays waiting. */
export async function actOn(
  parts: StepParts,
  client: pg.PoolClient,
  act: Pick<Act, 'operation' | 'item' | 'actions' | 'moves'>,
): Promise<ItemChange | null> {
  const { operation, item } = act;
  if (!isUuid(item.jobId)) return skipped(item, NO_JOB);
  return ACTIONS[operation.action]({ parts, client, ...act });
}

type Act = {
  parts: StepParts;
  client: pg.PoolClient;
  operation: Operation;
  item: Item;
  /** What to write for the audit trail when the step ends. */
  actions: AuditAction[];
  moves: Moves;
};

const ACTIONS: Readonly<Record<OperationAction, (act: Act) => Promise<ItemChange | null>>> = {
  replay: async ({ parts, client, item, ...act }) => {
    const replayed = await parts.desk.replay(client, deskRequest({ ...act, item }));
    if (replayed.kind !== 'replayed') return refusedItem(item, replayed);
    act.moves.push(replayed.moved);
    return { n: item.n, result: 'sent', fromState: 'dead_letter' };
  },
  discard: async ({ parts, client, item, ...act }) => {
    const discarded = await parts.desk.discard(client, deskRequest({ ...act, item }));
    return discarded.kind === 'discarded' ? { n: item.n, result: 'succeeded', fromState: 'dead_letter' } : refusedItem(item, discarded);
  },
  fix_forward: async ({ parts, client, item, ...act }) => {
    const { patch, payload } = act.operation;
    const correction = patch === null ? ({ kind: 'payload', payload } as const) : ({ kind: 'patch', patch } as const);
    const fixed = await parts.desk.fixForward(client, { ...deskRequest({ ...act, item }), correction });
    return fixed.kind === 'fixed'
      ? { n: item.n, result: 'sent', fromState: 'dead_letter', newJobId: fixed.jobId }
      : refusedItem(item, fixed);
  },
  retry: async ({ parts, client, operation: { orgId, projectId, actor }, item, moves }) => {
    const locked = await lockFreeJob(client, { orgId, projectId }, item.jobId);
    if (locked.kind !== 'locked') return locked.kind === 'held' ? null : skipped(item, NO_JOB);
    const how = { resetAttempts: false, priority: null, delayMs: null, actor };
    const retried = await retryJob(client, { orgId, projectId, id: item.jobId, ...how });
    if (retried.kind !== 'queued') return skipped(item, `The job is ${locked.state} and cannot be retried.`);
    onTransactionEnd(client, () => parts.onRetried(retried.state));
    moves.push(retried.moved);
    return { n: item.n, result: 'sent', fromState: locked.state };
  },
  cancel: async ({ parts, client, operation: { orgId, projectId, actor, reason }, item, moves }) => {
    const [cancelled] = await cancelFreeJobs(client, { orgId, projectId, ids: [item.jobId], reason, actor, force: false });
    if (cancelled === null || cancelled === undefined) return null;
    if (cancelled.kind === 'not_found') return skipped(item, NO_JOB);
    if (cancelled.kind === 'already_final') return skipped(item, `The job is ${cancelled.previousState} and cannot be cancelled.`);
    onTransactionEnd(client, () => parts.onCancelled());
    moves.push(cancelled.moved);
    const fromState = cancelled.previousState ?? undefined;
    return { n: item.n, result: cancelled.kind === 'requested' ? 'sent' : 'succeeded', fromState };
  },
};

const NO_JOB = 'There is no such job.';

const deskRequest = ({ operation, item: { jobId }, actions }: Pick<Act, 'operation' | 'item' | 'actions'>) => ({
  orgId: operation.orgId,
  projectId: operation.projectId,
  jobId,
  requester: requesterOf(operation),
  operationId: operation.id,
  actions,
});

const skipped = ({ n }: Item, error: string): ItemChange => ({ n, result: 'skipped', error: error.slice(0, MAX_ERROR) });
export const failed = ({ n }: Item, error: string): ItemChange => ({ n, result: 'failed', error: error.slice(0, MAX_ERROR) });

/** A job that the operation cannot act on is skipped. A correction that does not fit is a failure of the operation. */
function refusedItem(item: Item, refusal: Refusal): ItemChange | null {
  if (refusal.kind === 'held') return null;
  if (refusal.kind === 'not_found') return skipped(item, 'There is no dead letter with this id.');
  if (refusal.kind === 'not_open') return skipped(item, `The entry is ${refusal.status}, not open.`);
  const { code, message } = refusal.error;
  return code === 'CONFLICT' ? skipped(item, message) : failed(item, message);
}

/** The outcome of a job that was sent, or null while it has none. */
export function outcomeOf(action: OperationAction, item: FollowedItem): ItemChange | null {
  const { n, state } = item;
  if (state === null) return skipped(item, 'The job was removed before its outcome was seen.');
  if (!isTerminal(state)) return null;
  if (action === 'cancel')
    return state === 'cancelled' ? { n, result: 'succeeded' } : failed(item, `The job ended as ${state} before it was cancelled.`);
  if (state === 'completed') return { n, result: 'succeeded' };
  if (state === 'cancelled') return failed(item, 'The job was cancelled.');
  return failed(item, item.error === null ? `The job is ${state}.` : textOf(JSON.parse(item.error) as Failure));
}

function textOf(failure: Failure): string {
  const { code, message } = publicFailure(failure);
  return `${code}: ${message}`;
}
