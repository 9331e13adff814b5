import type { AuditAction } from '../../core/governance/audit-action.ts';
import { int4Array, jsonArray, textArray, uuidArray } from '../driver/binary-array.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';

const RECORD = statement(
  'record_actions',
  `INSERT INTO millrace.audit_actions (at, org_id, project_id, event, actor, request_id, correlation_id, job_id, job_type, attempt, details)
   SELECT millrace.clock(), u.org_id, u.project_id, u.event, u.actor, u.request_id, coalesce(u.correlation_id, u.request_id), u.job_id, u.job_type,
     u.attempt, u.details
   FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::uuid[], $8::text[], $9::int4[], $10::json[])
     WITH ORDINALITY AS u(org_id, project_id, event, actor, request_id, correlation_id, job_id, job_type, attempt, details, n)
   ORDER BY u.n`,
);

/**
 * Writes requested actions for the audit trail. Call it in the transaction of the action, so that an action without its row, or a row
 * without its action, cannot exist.
 */
export async function recordActions(db: Queryable, actions: readonly AuditAction[]): Promise<void> {
  if (actions.length === 0) return;
  await run(db, RECORD, [
    uuidArray(actions.map(({ orgId }) => orgId)),
    uuidArray(actions.map(({ projectId }) => projectId ?? null)),
    textArray(actions.map(({ event }) => event)),
    textArray(actions.map(({ requester }) => requester.actor)),
    textArray(actions.map(({ requester }) => requester.requestId)),
    textArray(actions.map(({ requester }) => requester.correlationId ?? null)),
    uuidArray(actions.map(({ jobId }) => jobId ?? null)),
    textArray(actions.map(({ jobType }) => jobType ?? null)),
    int4Array(actions.map(({ attempt }) => attempt ?? null)),
    jsonArray(actions.map(detailsOf)),
  ]);
}

function detailsOf({ details, requester: { reason } }: AuditAction): string | null {
  const all = { ...details, ...(reason == null || reason === '' ? {} : { reason }) };
  return Object.keys(all).length === 0 ? null : JSON.stringify(all);
}
