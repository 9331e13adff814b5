// SQL that writes the entry of a job that dies, in the statement that ends the job (decision 0066).

/** The columns of job `j` that its entry repeats. A statement returns them from its UPDATE of the job. */
export const ENTRY_COLUMNS =
  'j.id AS died_id, j.project_id AS died_project, j.queue AS died_queue, j.category AS died_category, j.last_error AS died_of';

const UNKNOWN = `'{"category":"SYSTEM","code":"UNKNOWN","message":"the cause is not known"}'::json`;

/** Jobs of other doors have their own reports: no operator of an org replays them. */
const IS_SHOWN = `job_type NOT LIKE 'forgerun.%' AND job_type NOT LIKE 'fetchbox.%' AND job_type <> 'webhook.deliver'`;

/** `source` has the jobs that died, with their `ENTRY_COLUMNS`. A job that dies again opens its entry again. */
export const diedText = (source: string, reason: string): string => `died AS (
  INSERT INTO millrace.dead_letters AS d (org_id, seq, job_id, project_id, job_type, queue, category, failed_at, attempts, reason, code, error,
    fingerprint)
  SELECT org_id, seq, died_id, died_project, job_type, died_queue, died_category, millrace.clock(), attempts_started, ${reason},
    coalesce(died_of->>'code', 'UNKNOWN'), coalesce(died_of, ${UNKNOWN}), millrace.failure_fingerprint(job_type, died_of)
  FROM (SELECT * FROM ${source}) s WHERE ${IS_SHOWN}
  ON CONFLICT (org_id, seq) DO UPDATE SET project_id = excluded.project_id, job_type = excluded.job_type, queue = excluded.queue,
    failed_at = excluded.failed_at, attempts = excluded.attempts, reason = excluded.reason, code = excluded.code, error = excluded.error,
    fingerprint = excluded.fingerprint, status = 'open', resolved_at = NULL, resolved_by = NULL, undo_until = NULL, operation_id = NULL,
    replaced_by = NULL, is_alerted = false
)`;

/** Closes the entries of jobs of `source`, which a manual retry has queued again. */
export const replayedText = (source: string, actor: string): string => `replayed AS (
  UPDATE millrace.dead_letters d SET status = 'replayed', resolved_at = millrace.clock(), resolved_by = ${actor}, undo_until = NULL,
    operation_id = NULL
  FROM (SELECT * FROM ${source}) r WHERE d.org_id = r.org_id AND d.seq = r.seq AND d.status IN ('open', 'discarded')
)`;
