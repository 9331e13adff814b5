import type { AuditRow } from '../../core/governance/audit-row.ts';

/** The columns of an audit row `r`, as the type has them. */
export const ROW_COLUMNS = `r.id, r.org_id AS "orgId", r.position, r.recorded_at AS "recordedAt", r.at, r.event, r.project_id AS "projectId",
  r.actor_type AS "actorType", r.actor_id AS "actorId", r.performed_by AS "performedBy", r.request_id AS "requestId",
  r.correlation_id AS "correlationId", r.job_id AS "jobId", r.job_type AS "jobType", r.attempt, r.details::text AS details,
  encode(r.hash, 'hex') AS hash`;

export type StoredRow = { -readonly [K in keyof AuditRow]: AuditRow[K] };
