import { NO_ACTOR } from '../../core/governance/actor.ts';

/** SQL expressions over the rows of `source`, which are jobs with their `id`, `project_id`, `job_type`, `attempts_started` and `correlation_id`. */
export type AuditedParams = {
  source: string;
  event: string;
  orgId: string;
  actor: string;
  requestId: string;
  /** JSON, or null. */
  details: string;
};

/** A statement that somebody asked for writes its own rows for the audit trail, so that it needs no transaction. */
export const auditedText = ({ source, event, orgId, actor, requestId, details }: AuditedParams): string => `audited AS (
  INSERT INTO millrace.audit_actions (at, org_id, project_id, event, actor, request_id, correlation_id, job_id, job_type, attempt, details)
  SELECT millrace.clock(), ${orgId}, project_id, '${event}', coalesce(${actor}, '${NO_ACTOR.type}:${NO_ACTOR.id}'), ${requestId},
    coalesce(correlation_id, ${requestId}, id::text), id, job_type, attempts_started, ${details}
  FROM ${source}
)`;
