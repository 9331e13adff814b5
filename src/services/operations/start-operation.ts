import { randomUUID } from 'node:crypto';
import { AppError } from '../../core/errors.ts';
import type { Requester } from '../../core/governance/audit-action.ts';
import type { Owner } from '../../core/owner.ts';
import type { Engine } from '../../engine/engine.ts';
import { recordActions } from '../../ledger/audit/record-action.ts';
import type { Queryable } from '../../ledger/driver/statement.ts';
import { countOpenOperations, createOperation, nameJobs } from '../../ledger/operations/create-operation.ts';
import { listJobs } from '../../ledger/operations/list-jobs.ts';
import type { Operation } from '../../ledger/operations/operation-row.ts';
import { type OperationRequest, type ReadRequest, readOperationRequest } from './operation-request.ts';

/** How many operations of an org may be under way. */
const MAX_OPEN = 20;
const RETRY_AFTER_MS = 60_000;
/** The request itself lists jobs for this many steps, so that most answers have the final number. The runner lists the rest. */
const STEPS = 4;

export type StartParams = Owner & { requester: Requester; request: OperationRequest };

/** Creates an operation. A process that runs the engine carries it out. */
export async function startOperation(engine: Engine, { request, ...params }: StartParams): Promise<Operation> {
  const read = readOperationRequest(request);
  const operation = await engine.writer.transact(params.orgId, (client) => create(client, params, read));
  engine.deadLetters.runner.wake();
  return operation;
}

async function create(
  client: Queryable,
  { orgId, projectId, requester }: Omit<StartParams, 'request'>,
  read: ReadRequest,
): Promise<Operation> {
  const { action, target, correction, canary, rate, halt, reason } = read;
  const open = await countOpenOperations(client, orgId);
  if (open >= MAX_OPEN)
    throw new AppError('QUOTA_EXCEEDED', {
      message: `${MAX_OPEN} operations of the org are under way. Wait for one to end, or stop one.`,
      quota: { limit: 'org_operations', current: open, maximum: MAX_OPEN, retryAfterMs: RETRY_AFTER_MS },
    });
  const { actor, requestId } = requester;
  const created = await createOperation(client, {
    id: randomUUID(),
    orgId,
    projectId,
    action,
    filter: target.kind === 'named' ? null : target.filter,
    patch: correction?.kind === 'patch' ? correction.patch : null,
    payload: correction?.kind === 'payload' ? correction.payload : null,
    canary,
    rate,
    halt,
    reason,
    actor,
    requestId,
  });
  const details = { operation_id: created.id, action, canary, rate };
  await recordActions(client, [{ orgId, projectId, event: 'operation.created', requester: { ...requester, reason }, details }]);
  if (target.kind === 'named') return nameJobs(client, created.id, target.jobIds);
  return listSome(client, created);
}

async function listSome(client: Queryable, created: Operation): Promise<Operation> {
  let operation = created;
  for (let step = 0; step < STEPS && !operation.isListed; step++) operation = { ...operation, ...(await listJobs(client, operation)) };
  return operation;
}
