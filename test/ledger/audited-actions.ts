/**
 * Requested actions, to select from: those that a loop has moved to the audit trail come before those that wait for it. The rows of jobs
 * themselves are left out.
 */
export const ACTIONS = `(
  SELECT id, org_id, project_id, event, actor, request_id, correlation_id, job_id, job_type, attempt, details FROM millrace.audit_actions
  WHERE event NOT LIKE 'job.%'
  UNION ALL
  SELECT id - 1000000000000000, org_id, project_id, event, actor_type || ':' || actor_id, request_id, correlation_id, job_id, job_type, attempt, details
  FROM millrace.audit_rows WHERE event NOT LIKE 'job.%') AS actions`;

/** The same without the keys that a test gives its callers. */
export const ACTIONS_BESIDE_KEYS = `(SELECT * FROM ${ACTIONS} WHERE event <> 'key.created') AS actions`;
