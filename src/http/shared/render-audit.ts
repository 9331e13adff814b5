import type { Static } from 'typebox';
import type { AuditRow } from '../../core/governance/audit-row.ts';
import type { AuditRowView } from './audit-schemas.ts';

export const renderAuditRow = (row: AuditRow): Static<typeof AuditRowView> => ({
  audit_id: String(row.id),
  at: row.at.toISOString(),
  event: row.event,
  org_id: row.orgId,
  project_id: row.projectId,
  actor_type: row.actorType,
  actor_id: row.actorId,
  performed_by: row.performedBy,
  request_id: row.requestId,
  correlation_id: row.correlationId,
  job_id: row.jobId,
  job_type: row.jobType,
  attempt: row.attempt,
  details: JSON.parse(row.details) as Record<string, unknown>,
  position: row.position,
  recorded_at: row.recordedAt.toISOString(),
  hash: row.hash,
});
