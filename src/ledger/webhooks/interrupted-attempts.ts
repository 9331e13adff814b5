import { type Queryable, run, statement } from '../driver/statement.ts';

// A worker writes an attempt when the attempt ends. If the worker was lost or could not reach the database, the engine ended the attempt
// instead. The request may still have reached the endpoint, so the attempt is added from the history of the job.
const ADD = statement(
  'add_interrupted_attempts',
  `WITH interrupted AS MATERIALIZED (
  SELECT e.lease_seq, e.at, e.took_ms, coalesce(e.detail->>'code', upper(e.reason)) AS error_code
  FROM millrace.jobs j
  JOIN millrace.events e ON e.record_id = ANY (j.record_ids) AND e.org_id = j.org_id AND e.job_seq = j.seq
  WHERE j.id = $2::uuid AND e.from_state = 'running' AND e.lease_seq <> j.started_lease_seq
    AND NOT EXISTS (SELECT FROM millrace.webhook_attempts a WHERE a.delivery_id = $1::uuid AND a.lease_seq = e.lease_seq OFFSET 0)
), counted AS (
  UPDATE millrace.webhook_deliveries d SET attempts = d.attempts + i.attempts, tries = d.tries + i.attempts
  FROM (SELECT count(*)::int4 AS attempts FROM interrupted) i WHERE d.id = $1::uuid AND i.attempts > 0
  RETURNING d.id, d.org_id, d.webhook_id, d.attempts - i.attempts AS before, i.attempts AS added
), lane AS (
  UPDATE millrace.webhook_lanes l SET attempts_total = l.attempts_total + c.added FROM counted c WHERE l.webhook_id = c.webhook_id
)
INSERT INTO millrace.webhook_attempts (delivery_id, n, org_id, lease_seq, ended_at, duration_ms, verdict, error_code)
SELECT c.id, c.before + row_number() OVER (ORDER BY i.lease_seq), c.org_id, i.lease_seq, i.at, coalesce(i.took_ms, 0)::int4,
  'interrupted', i.error_code
FROM counted c CROSS JOIN interrupted i RETURNING 1 AS one`,
);

/** Adds earlier attempts that no worker wrote, and returns their number. The caller must have locked the lane. */
export async function addInterruptedAttempts(
  client: Queryable,
  { deliveryId, jobId }: { deliveryId: string; jobId: string },
): Promise<number> {
  return (await run(client, ADD, [deliveryId, jobId])).length;
}
