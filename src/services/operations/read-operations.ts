import type { ItemResult, OperationState } from '../../core/governance/operation.ts';
import { isUuid } from '../../core/ids.ts';
import type { Owner } from '../../core/owner.ts';
import type { Engine } from '../../engine/engine.ts';
import type { Operation } from '../../ledger/operations/operation-row.ts';
import { getOperation, type ItemPage, listItems, listOperations, type OperationPage } from '../../ledger/operations/read-operations.ts';
import { readPage } from '../dead-letters/dead-letter-request.ts';
import { noSuchOperation } from './operation-request.ts';

export type { Operation } from '../../ledger/operations/operation-row.ts';
export type { ItemPage, OperationPage } from '../../ledger/operations/read-operations.ts';

type Page = { limit?: number; cursor?: string | null };

/** Returns an operation. Throws NOT_FOUND. */
export async function readOperation(engine: Engine, { id, ...owner }: Owner & { id: string }): Promise<Operation> {
  const operation = isUuid(id) ? await getOperation(engine.database.reads.of(owner.orgId), owner, id) : null;
  if (operation === null) throw noSuchOperation(id);
  return operation;
}

/** Returns a page of operations, newest first. */
export async function readOperations(engine: Engine, params: Owner & Page & { state?: OperationState }): Promise<OperationPage> {
  return listOperations(engine.database.reads.of(params.orgId), params, { ...readPage(params), state: params.state ?? null });
}

/** Returns a page of the jobs of an operation, each once. Throws NOT_FOUND. */
export async function readItems(engine: Engine, params: Owner & Page & { id: string; result?: ItemResult }): Promise<ItemPage> {
  const { orgId, projectId, id, result } = params;
  const operation = await readOperation(engine, { orgId, projectId, id });
  return listItems(engine.database.reads.of(orgId), operation, { ...readPage(params), result: result ?? null });
}
