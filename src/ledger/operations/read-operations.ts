import type { ItemResult, OperationState } from '../../core/governance/operation.ts';
import type { Owner } from '../../core/owner.ts';
import { type CursorScope, invalidCursor, readPageCursor, writePageCursor } from '../driver/page-cursor.ts';
import { sealOf } from '../driver/seal.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';
import { dateOf, type Time } from '../reads/job-row.ts';
import { OPERATION, type Operation, type OperationRow, toOperation } from './operation-row.ts';

const GET = statement(
  'get_operation',
  `SELECT ${OPERATION} FROM millrace.operations o WHERE o.id = $2::uuid AND (o.org_id = $1::uuid) IS TRUE AND ($3::uuid IS NULL OR o.project_id = $3::uuid)`,
);

/** Returns an operation, or null if the owner has none with this id. */
export async function getOperation(db: Queryable, { orgId, projectId }: Owner, id: string): Promise<Operation | null> {
  const [row] = await run<OperationRow>(db, GET, [orgId, id, projectId]);
  return row === undefined ? null : toOperation(row);
}

const LIST = statement(
  'list_operations',
  `SELECT ${OPERATION}, (extract(epoch FROM o.created_at) * 1000000)::int8::text AS at_us FROM millrace.operations o
   WHERE o.org_id = $1::uuid AND ($2::uuid IS NULL OR o.project_id = $2::uuid) AND ($3::text IS NULL OR o.state = $3::text)
     AND (o.created_at, o.id) < (coalesce(timestamptz 'epoch' + $4::int8 * interval '1 us', 'infinity'), coalesce($5::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
   ORDER BY o.created_at DESC, o.id DESC LIMIT $6::int4 + 1`,
);

export type Page = { readonly limit: number; readonly cursor: string | null };
export type OperationPage = { operations: Operation[]; nextCursor: string | null };

/** Returns operations, newest first. */
export async function listOperations(
  db: Queryable,
  { orgId, projectId }: Owner,
  { state, limit, cursor }: Page & { state: OperationState | null },
): Promise<OperationPage> {
  const scope: CursorScope = { list: 'OPERATIONS', orgId, filter: { state, projectId } };
  const seal = await sealOf(db);
  const [atUs, id] = cursor === null ? [null, null] : readPageCursor(seal, scope, cursor);
  if (cursor !== null && (typeof atUs !== 'string' || typeof id !== 'string')) throw invalidCursor();
  const rows = await run<OperationRow & { at_us: string }>(db, LIST, [orgId, projectId, state, atUs, id, limit]);
  const shown = rows.slice(0, limit);
  const last = rows.length > limit ? shown.at(-1) : undefined;
  return {
    operations: shown.map(toOperation),
    nextCursor: last === undefined ? null : writePageCursor(seal, scope, [last.at_us, last.id]),
  };
}

const ITEMS = statement(
  'list_operation_items',
  `SELECT n, job_id, result, new_job_id, error, sent_at, ended_at, undone_at FROM millrace.operation_items
   WHERE operation_id = $1::uuid AND ($2::text IS NULL OR result = $2::text) AND n > $3::int4 ORDER BY n LIMIT $4::int4 + 1`,
);

/** One job of an operation. */
type OperationItem = {
  readonly jobId: string;
  readonly result: ItemResult;
  readonly newJobId: string | null;
  readonly error: string | null;
  readonly sentAt: Date | null;
  readonly endedAt: Date | null;
  readonly isUndone: boolean;
};

type ItemRow = {
  n: number;
  job_id: string;
  result: ItemResult;
  new_job_id: string | null;
  error: string | null;
  sent_at: Time | null;
  ended_at: Time | null;
  undone_at: Time | null;
};

export type ItemPage = { items: OperationItem[]; nextCursor: string | null };

/** Returns the jobs of an operation that the owner has, in their order. */
export async function listItems(
  db: Queryable,
  { id, orgId }: Pick<Operation, 'id' | 'orgId'>,
  { result, limit, cursor }: Page & { result: ItemResult | null },
): Promise<ItemPage> {
  const scope: CursorScope = { list: 'OPERATION_ITEMS', orgId, filter: { id, result } };
  const seal = await sealOf(db);
  const [after] = cursor === null ? [0] : readPageCursor(seal, scope, cursor);
  if (!Number.isSafeInteger(after)) throw invalidCursor();
  const rows = await run<ItemRow>(db, ITEMS, [id, result, after, limit]);
  const shown = rows.slice(0, limit);
  const last = rows.length > limit ? shown.at(-1) : undefined;
  return { items: shown.map(toItem), nextCursor: last === undefined ? null : writePageCursor(seal, scope, [last.n]) };
}

const toItem = (row: ItemRow): OperationItem => ({
  jobId: row.job_id,
  result: row.result,
  newJobId: row.new_job_id,
  error: row.error,
  sentAt: dateOf(row.sent_at),
  endedAt: dateOf(row.ended_at),
  isUndone: row.undone_at !== null,
});

// The report of an operation is kept as long as the entries that it acted on.
const PRUNE = statement(
  'prune_operations',
  `DELETE FROM millrace.operations WHERE id = ANY (ARRAY(SELECT o.id FROM millrace.operations o
     WHERE o.finished_at < millrace.clock() - $1::float8 * interval '1 ms' LIMIT $2::int4 FOR UPDATE SKIP LOCKED)) RETURNING 1 AS one`,
);
const PRUNE_ITEMS = statement(
  'prune_operation_items',
  `DELETE FROM millrace.operation_items WHERE ctid = ANY (ARRAY(SELECT i.ctid FROM millrace.operations o
     JOIN millrace.operation_items i ON i.operation_id = o.id
     WHERE o.finished_at < millrace.clock() - $1::float8 * interval '1 ms' LIMIT $2::int4)) RETURNING 1 AS one`,
);

/** Removes operations past their retention with their items, in bounded steps. Returns how many rows it removed. */
export async function pruneOperations(db: Queryable, { retentionMs, limit }: { retentionMs: number; limit: number }): Promise<number> {
  const items = (await run(db, PRUNE_ITEMS, [retentionMs, limit])).length;
  return items > 0 ? items : (await run(db, PRUNE, [retentionMs, limit])).length;
}
