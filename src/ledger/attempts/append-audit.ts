import { type Queryable, run, statement } from '../driver/statement.ts';
import { isInTransaction } from './fenced-writes.ts';

// As for other writes of a handler: the row lock keeps the lease until the row is written, and nothing lands from an attempt that has lost
// the job.
const APPEND = statement(
  'append_audit',
  `WITH place AS MATERIALIZED (
     SELECT ${isInTransaction('$7')} AS is_right
   ), owned AS (
     SELECT j.org_id, j.project_id, j.id, j.job_type, j.actor, j.request_id, j.correlation_id, j.attempts_started FROM millrace.jobs j
     WHERE j.org_id = $1::uuid AND j.seq = $2::int8 AND j.lease_seq = $3::int8 AND j.state = 'running'
       AND (SELECT is_right FROM place)
     FOR NO KEY UPDATE NOWAIT
   ), written AS (
     INSERT INTO millrace.audit_actions (at, org_id, project_id, event, actor, performed_by, request_id, correlation_id, job_id, job_type, attempt, details)
     SELECT millrace.clock(), org_id, project_id, $4::text, coalesce(actor, 'system:millrace'), $5::text, coalesce(request_id, id::text),
       coalesce(correlation_id, request_id, id::text), id, job_type, attempts_started, $6::json FROM owned
     RETURNING id
   )
   SELECT p.is_right AS "isRight", w.id IS NOT NULL AS "hasLanded" FROM place p LEFT JOIN written w ON true`,
);

export type AuditAppend = {
  readonly orgId: string;
  readonly seq: number;
  readonly leaseSeq: number;
  readonly event: string;
  readonly performedBy: string;
  /** JSON text. */
  readonly details: string;
};

/** Writes a row for the audit trail, if the attempt still has its lease. */
export async function appendAudit(
  db: Queryable,
  { orgId, seq, leaseSeq, event, performedBy, details }: AuditAppend,
  transactionId: string | null,
): Promise<{ landed: boolean; transactionEnded?: true }> {
  const values = [orgId, seq, leaseSeq, event, performedBy, details, transactionId];
  const [row] = (await run<{ isRight: boolean; hasLanded: boolean }>(db, APPEND, values)) as [{ isRight: boolean; hasLanded: boolean }];
  return row.isRight ? { landed: row.hasLanded } : { landed: false, transactionEnded: true };
}
