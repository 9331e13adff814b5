import type { HaltRule, OperationAction } from '../../core/governance/operation.ts';
import type { PatchStep } from '../../core/governance/payload-patch.ts';
import type { Owner } from '../../core/owner.ts';
import { textArray } from '../driver/binary-array.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';
import { OPERATION, type Operation, type OperationRow, toOperation } from './operation-row.ts';

export type NewOperation = Owner & {
  readonly id: string;
  readonly action: OperationAction;
  readonly filter: object | null;
  readonly patch: readonly PatchStep[] | null;
  readonly payload: unknown;
  readonly canary: number;
  readonly rate: number;
  readonly halt: HaltRule | null;
  readonly reason: string | null;
  readonly actor: string;
  readonly requestId: string | null;
};

const CREATE = statement(
  'create_operation',
  `INSERT INTO millrace.operations AS o (id, org_id, project_id, action, state, filter, patch, payload, canary, rate, halt_failure_rate, halt_after,
     reason, actor, request_id, created_at, is_listed, paid_until, next_step_at)
   VALUES ($1::uuid, $2::uuid, $3::uuid, $4::text, CASE WHEN $8::int4 > 0 THEN 'canary' ELSE 'running' END, $5::json, $6::json, $7::json, $8::int4,
     $9::float8, $10::float8, $11::int4, $12::text, $13::text, $14::text, millrace.clock(), false, millrace.clock(), millrace.clock())
   RETURNING ${OPERATION}`,
);

const jsonOrNull = (value: unknown): string | null => (value == null ? null : JSON.stringify(value));

/** Creates an operation whose jobs are not listed yet. */
export async function createOperation(db: Queryable, params: NewOperation): Promise<Operation> {
  const { id, orgId, projectId, action, filter, patch, payload, canary, rate, halt, reason, actor, requestId } = params;
  const [row] = await run<OperationRow>(db, CREATE, [
    id,
    orgId,
    projectId,
    action,
    jsonOrNull(filter),
    jsonOrNull(patch),
    jsonOrNull(payload),
    canary,
    rate,
    halt?.failureRate ?? null,
    halt?.after ?? null,
    reason,
    actor,
    requestId,
  ]);
  return toOperation(row as OperationRow);
}

const COUNT_OPEN = statement(
  'count_open_operations',
  `SELECT count(*)::int4 AS operations FROM millrace.operations o WHERE o.org_id = $1::uuid AND o.finished_at IS NULL`,
);

/** How many operations of the org have not ended. */
export async function countOpenOperations(db: Queryable, orgId: string): Promise<number> {
  const [row] = await run<{ operations: number }>(db, COUNT_OPEN, [orgId]);
  return row?.operations ?? 0;
}

const NAME_JOBS = statement(
  'name_operation_jobs',
  `WITH named AS (
     INSERT INTO millrace.operation_items (operation_id, n, job_id)
     SELECT $1::uuid, row_number() OVER (ORDER BY min(u.n))::int4, u.job_id FROM unnest($2::text[]) WITH ORDINALITY AS u(job_id, n)
     GROUP BY u.job_id RETURNING 1
   )
   UPDATE millrace.operations o SET matching = (SELECT count(*) FROM named), is_listed = true WHERE o.id = $1::uuid RETURNING ${OPERATION}`,
);

/** Gives an operation the jobs that a request named, each once. */
export async function nameJobs(db: Queryable, operationId: string, jobIds: readonly string[]): Promise<Operation> {
  const [row] = await run<OperationRow>(db, NAME_JOBS, [operationId, textArray(jobIds)]);
  return toOperation(row as OperationRow);
}
