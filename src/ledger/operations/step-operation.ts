import type { ItemResult, OperationState } from '../../core/governance/operation.ts';
import type { JobState } from '../../core/states.ts';
import { boolArray, int4Array, textArray, uuidArray } from '../driver/binary-array.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';
import { OPERATION, type Operation, type OperationRow, toOperation } from './operation-row.ts';

/** An operation that the transaction has locked, with what only its steps need. */
export type LockedOperation = Operation & {
  readonly nowMs: number;
  readonly paidUntilMs: number;
  readonly sweptN: number;
  readonly counted: { readonly succeeded: number; readonly failed: number };
};

type LockedRow = OperationRow & {
  now_ms: number;
  paid_until_ms: number;
  swept_n: number;
  counted_succeeded: number;
  counted_failed: number;
};

const LOCKED = `${OPERATION}, o.swept_n, o.counted_succeeded, o.counted_failed,
     (extract(epoch FROM millrace.clock()) * 1000)::float8 AS now_ms, (extract(epoch FROM o.paid_until) * 1000)::float8 AS paid_until_ms`;
const HAS_WORK = `(o.finished_at IS NULL OR (o.undo_asked_at IS NOT NULL AND o.undone_at IS NULL))`;

// One process at a time has the row, and a process that dies gives it back with its session.
const LOCK_DUE = statement(
  'lock_due_operation',
  `SELECT ${LOCKED} FROM millrace.operations o WHERE ${HAS_WORK} AND o.next_step_at <= millrace.clock() AND o.id <> ALL ($1::uuid[])
   ORDER BY o.next_step_at LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED`,
);

const LOCK = statement(
  'lock_operation',
  `SELECT ${LOCKED} FROM millrace.operations o WHERE o.id = $2::uuid AND (o.org_id = $1::uuid) IS TRUE
     AND ($3::uuid IS NULL OR o.project_id = $3::uuid) FOR NO KEY UPDATE`,
);

const NEXT_DUE = statement(
  'next_due_operation',
  `SELECT (extract(epoch FROM min(o.next_step_at) - millrace.clock()) * 1000)::float8 AS wait_ms FROM millrace.operations o WHERE ${HAS_WORK}`,
);

const toLocked = (row: LockedRow): LockedOperation => ({
  ...toOperation(row),
  nowMs: row.now_ms,
  paidUntilMs: row.paid_until_ms,
  sweptN: row.swept_n,
  counted: { succeeded: row.counted_succeeded, failed: row.counted_failed },
});

/** Locks the operation whose step is due first, or returns null. `except`: those that had a step in this round. */
export async function lockDueOperation(db: Queryable, except: readonly string[]): Promise<LockedOperation | null> {
  const [row] = await run<LockedRow>(db, LOCK_DUE, [uuidArray(except)]);
  return row === undefined ? null : toLocked(row);
}

export async function lockOperation(
  db: Queryable,
  { orgId, projectId }: { orgId: string; projectId: string | null },
  id: string,
): Promise<LockedOperation | null> {
  const [row] = await run<LockedRow>(db, LOCK, [orgId, id, projectId]);
  return row === undefined ? null : toLocked(row);
}

/** The time until the next step of any operation is due. Null: there is none to step. */
export async function nextStepMs(db: Queryable): Promise<number | null> {
  const [row] = await run<{ wait_ms: number | null }>(db, NEXT_DUE);
  return row?.wait_ms ?? null;
}

export type Item = { n: number; jobId: string; newJobId: string | null; fromState: JobState | null };
type ItemRow = { n: number; job_id: string; new_job_id: string | null; from_state: JobState | null };
const toItem = (row: ItemRow): Item => ({ n: row.n, jobId: row.job_id, newJobId: row.new_job_id, fromState: row.from_state });

const TAKE = statement(
  'take_operation_items',
  `SELECT n, job_id, new_job_id, from_state FROM millrace.operation_items
   WHERE operation_id = $1::uuid AND result = $2::text AND n > $3::int4 AND undone_at IS NULL ORDER BY n LIMIT $4::int4`,
);

/** The next items with this result, after the item `afterN`. */
export async function takeItems(
  db: Queryable,
  operationId: string,
  { result, afterN, limit }: { result: ItemResult; afterN: number; limit: number },
): Promise<Item[]> {
  return (await run<ItemRow>(db, TAKE, [operationId, result, afterN, limit])).map(toItem);
}

const FOLLOW = statement(
  'follow_operation_items',
  `SELECT i.n, i.job_id, i.new_job_id, i.from_state, j.state, j.last_error::text AS error FROM (
     SELECT * FROM millrace.operation_items WHERE operation_id = $1::uuid AND result = 'sent' AND n > $2::int4 ORDER BY n LIMIT $3::int4) i
   LEFT JOIN LATERAL (SELECT j.state, CASE WHEN j.completed_at IS NOT NULL THEN j.last_error END AS last_error FROM millrace.jobs j
     WHERE j.id = coalesce(i.new_job_id, i.job_id::uuid) AND j.org_id = $4::uuid OFFSET 0) j ON true ORDER BY i.n`,
);

export type FollowedItem = Item & { readonly state: JobState | null; readonly error: string | null };

/** Sent items with the state of their jobs, which is null if the job was removed. */
export async function followItems(db: Queryable, { id, orgId, sweptN }: LockedOperation, limit: number): Promise<FollowedItem[]> {
  const rows = await run<ItemRow & { state: JobState | null; error: string | null }>(db, FOLLOW, [id, sweptN, limit, orgId]);
  return rows.map((row) => ({ ...toItem(row), state: row.state, error: row.error }));
}

/** What became of an item. Members that are absent stay. */
export type ItemChange = {
  readonly n: number;
  readonly result: ItemResult;
  readonly newJobId?: string;
  readonly fromState?: JobState;
  readonly error?: string;
  readonly isUndone?: true;
};

const WRITE_ITEMS = statement(
  'write_operation_items',
  `UPDATE millrace.operation_items i SET result = u.result, new_job_id = coalesce(u.new_job_id, i.new_job_id),
     from_state = coalesce(u.from_state, i.from_state), error = coalesce(u.error, i.error),
     sent_at = CASE WHEN i.result = 'waiting' AND u.result <> 'skipped' THEN millrace.clock() ELSE i.sent_at END,
     ended_at = CASE WHEN u.result IN ('succeeded', 'failed', 'skipped') THEN coalesce(i.ended_at, millrace.clock()) END,
     undone_at = CASE WHEN u.is_undone THEN millrace.clock() ELSE i.undone_at END
   FROM unnest($2::int4[], $3::text[], $4::uuid[], $5::text[], $6::text[], $7::bool[])
     AS u(n, result, new_job_id, from_state, error, is_undone)
   WHERE i.operation_id = $1::uuid AND i.n = u.n AND (i.result IN ('waiting', 'sent') OR u.is_undone)`,
);

export async function writeItems(db: Queryable, operationId: string, changes: readonly ItemChange[]): Promise<void> {
  if (changes.length === 0) return;
  await run(db, WRITE_ITEMS, [
    operationId,
    int4Array(changes.map(({ n }) => n)),
    textArray(changes.map(({ result }) => result)),
    uuidArray(changes.map(({ newJobId }) => newJobId ?? null)),
    textArray(changes.map(({ fromState }) => fromState ?? null)),
    textArray(changes.map(({ error }) => error ?? null)),
    boolArray(changes.map(({ isUndone }) => isUndone === true)),
  ]);
}

const SKIP = statement(
  'skip_operation_items',
  `UPDATE millrace.operation_items i SET result = 'skipped', ended_at = millrace.clock(), error = $3::text
   WHERE i.operation_id = $1::uuid AND i.n = ANY (ARRAY(SELECT n FROM millrace.operation_items
     WHERE operation_id = $1::uuid AND result = 'waiting' ORDER BY n LIMIT $2::int4)) RETURNING 1 AS one`,
);

/** Ends waiting items, at most `limit` of them. Returns how many. */
export async function skipWaiting(db: Queryable, operationId: string, { limit, error }: { limit: number; error: string }): Promise<number> {
  return (await run(db, SKIP, [operationId, limit, error])).length;
}

const OPEN_ITEMS = statement(
  'open_operation_items',
  `SELECT EXISTS (SELECT FROM millrace.operation_items WHERE operation_id = $1::uuid AND result = 'waiting') AS waiting,
     EXISTS (SELECT FROM millrace.operation_items WHERE operation_id = $1::uuid AND result = 'sent') AS sent,
     EXISTS (SELECT FROM millrace.operation_items WHERE operation_id = $1::uuid AND result = 'waiting' AND n <= $2::int4)
       OR EXISTS (SELECT FROM millrace.operation_items WHERE operation_id = $1::uuid AND result = 'sent' AND n <= $2::int4) AS canary`,
);

/** Which items have not ended: waiting ones, sent ones, ones of the canary. */
export async function openItems(
  db: Queryable,
  { id, canary }: Pick<Operation, 'id' | 'canary'>,
): Promise<{ waiting: boolean; sent: boolean; canary: boolean }> {
  const [row] = await run<{ waiting: boolean; sent: boolean; canary: boolean }>(db, OPEN_ITEMS, [id, canary]);
  return row ?? { waiting: false, sent: false, canary: false };
}

/** The state of an operation after a step. */
export type Stepped = {
  readonly id: string;
  readonly state: OperationState;
  readonly haltedBecause: string | null;
  readonly isFinished: boolean;
  readonly isUndone: boolean;
  readonly added: {
    readonly sent: number;
    readonly succeeded: number;
    readonly failed: number;
    readonly skipped: number;
    readonly undone: number;
  };
  readonly paidUntilMs: number;
  readonly sweptN: number;
  readonly waitMs: number;
};

const STEP = statement(
  'step_operation',
  `UPDATE millrace.operations o SET state = $2::text, halted_because = $3::text, halts = o.halts + ($2::text = 'halted' AND o.state <> 'halted')::int4,
     finished_at = CASE WHEN $4::bool THEN coalesce(o.finished_at, millrace.clock()) ELSE o.finished_at END,
     undone_at = CASE WHEN $5::bool THEN millrace.clock() ELSE o.undone_at END,
     sent = o.sent + $6::int4, succeeded = o.succeeded + $7::int4, failed = o.failed + $8::int4, skipped = o.skipped + $9::int4,
     undone = o.undone + $10::int4, paid_until = timestamptz 'epoch' + $11::float8 * interval '1 ms', swept_n = $12::int4,
     next_step_at = millrace.clock() + $13::float8 * interval '1 ms'
   WHERE o.id = $1::uuid`,
);

export async function writeStep(db: Queryable, stepped: Stepped): Promise<void> {
  const { id, state, haltedBecause, isFinished, isUndone, added, paidUntilMs, sweptN, waitMs } = stepped;
  const { sent, succeeded, failed, skipped, undone } = added;
  const counts = [sent, succeeded, failed, skipped, undone];
  await run(db, STEP, [id, state, haltedBecause, isFinished, isUndone, ...counts, paidUntilMs, sweptN, waitMs]);
}

const CONTROL = statement(
  'control_operation',
  `UPDATE millrace.operations o SET state = $2::text, halted_because = CASE WHEN $2::text = 'halted' THEN o.halted_because END,
     counted_succeeded = CASE WHEN $3::bool THEN o.succeeded ELSE o.counted_succeeded END,
     counted_failed = CASE WHEN $3::bool THEN o.failed ELSE o.counted_failed END,
     undo_asked_at = CASE WHEN $4::bool THEN millrace.clock() ELSE o.undo_asked_at END,
     swept_n = CASE WHEN $4::bool THEN 0 ELSE o.swept_n END, next_step_at = millrace.clock()
   WHERE o.id = $1::uuid RETURNING ${OPERATION}`,
);

/** Changes the state of a locked operation on request, and makes its next step due. */
export async function controlOperation(
  db: Queryable,
  { id, state, startsCount = false, undoes = false }: { id: string; state: OperationState; startsCount?: boolean; undoes?: boolean },
): Promise<Operation> {
  const [row] = await run<OperationRow>(db, CONTROL, [id, state, startsCount, undoes]);
  return toOperation(row as OperationRow);
}
