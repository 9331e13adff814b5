import { AppError } from '../../core/errors.ts';
import type { Requester } from '../../core/governance/audit-action.ts';
import type { OperationState } from '../../core/governance/operation.ts';
import { isUuid } from '../../core/ids.ts';
import type { Owner } from '../../core/owner.ts';
import type { Engine } from '../../engine/engine.ts';
import { recordActions } from '../../ledger/audit/record-action.ts';
import type { Queryable } from '../../ledger/driver/statement.ts';
import type { Operation } from '../../ledger/operations/operation-row.ts';
import { controlOperation, type LockedOperation, lockOperation, openItems } from '../../ledger/operations/step-operation.ts';
import { checkReason } from '../dead-letters/dead-letter-request.ts';
import { noSuchOperation } from './operation-request.ts';

export const OPERATION_CONTROLS = ['pause', 'resume', 'stop', 'undo'] as const;

export type OperationControl = (typeof OPERATION_CONTROLS)[number];

export type ControlParams = Owner & { id: string; control: OperationControl; requester: Requester };

const EVENTS = { pause: 'paused', resume: 'resumed', stop: 'stopped', undo: 'undone' } as const satisfies Record<OperationControl, string>;

const FROM: Readonly<Record<Exclude<OperationControl, 'undo'>, readonly OperationState[]>> = {
  pause: ['canary', 'running'],
  resume: ['paused', 'halted'],
  stop: ['canary', 'running', 'paused', 'halted'],
};

/** Pauses, resumes, stops or undoes an operation. Throws NOT_FOUND, or CONFLICT if its state does not allow that. */
export async function changeOperation(engine: Engine, params: ControlParams): Promise<Operation> {
  const { orgId, projectId, id, control, requester } = params;
  checkReason(requester.reason);
  if (!isUuid(id)) throw noSuchOperation(id);
  const changed = await engine.writer.transact(orgId, async (client) => {
    const operation = await lockOperation(client, { orgId, projectId }, id);
    if (operation === null) throw noSuchOperation(id);
    const after = await apply(client, operation, { control, undoWindowMs: engine.deadLetters.terms.undoWindowMs });
    const details = { operation_id: id, action: operation.action };
    await recordActions(client, [{ orgId, projectId: operation.projectId, event: `operation.${EVENTS[control]}`, requester, details }]);
    return after;
  });
  engine.deadLetters.runner.wake();
  return changed;
}

type How = { control: OperationControl; undoWindowMs: number };

async function apply(client: Queryable, operation: LockedOperation, { control, undoWindowMs }: How): Promise<Operation> {
  const { id, state } = operation;
  if (control === 'undo') {
    refuseUndo(operation, undoWindowMs);
    return controlOperation(client, { id, state: operation.finishedAt === null ? 'stopped' : state, undoes: true });
  }
  if (!FROM[control].includes(state)) throw conflict(`The operation is ${state}, so ${control} is not possible.`);
  if (control === 'pause') return controlOperation(client, { id, state: 'paused' });
  if (control === 'stop') return controlOperation(client, { id, state: 'stopped' });
  const { canary } = await openItems(client, operation);
  const isCanary = canary || (operation.canary > 0 && !operation.isListed);
  return controlOperation(client, { id, state: isCanary ? 'canary' : 'running', startsCount: state === 'halted' });
}

function refuseUndo({ action, undoAskedAt, finishedAt, nowMs }: LockedOperation, undoWindowMs: number): void {
  if (action === 'cancel')
    throw conflict('A cancelled job cannot run again, so the operation cannot be undone. Stop it, or submit new jobs.');
  if (undoAskedAt !== null) throw conflict('The operation was undone before.');
  if (finishedAt !== null && finishedAt.getTime() + undoWindowMs < nowMs)
    throw conflict('The time to undo the operation is over (deadletter.undo_window).');
}

const conflict = (message: string): AppError => new AppError('CONFLICT', { message });
