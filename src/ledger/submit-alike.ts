import { jsonArray, uuidArray } from './binary-array.ts';
import type { JobToWrite } from './job-to-write.ts';
import { RUN_OF_NEIGHBOURS } from './ready-runs.ts';
import { RECORD, RECORD_ID } from './record-events.ts';
import { type Queryable, run, statement } from './statement.ts';

// Most statements bring jobs of one kind: one caller's batch, or what many callers of one service sent in the same moment. What
// they share is sent once, and nothing has to be grouped.
const SUBMIT = statement(
  'submit_alike_jobs',
  `WITH ${RECORD}, input AS MATERIALIZED (
  SELECT i.id, i.payload, nextval('millrace.job_seq') AS seq FROM unnest($9::uuid[], $10::json[]) AS i(id, payload)
), inserted AS (
  INSERT INTO millrace.jobs (seq, org_id, id, created_at, updated_at, run_at, scheduled_at, lifetime_deadline, order_key,
    policy_id, state, priority, requested_priority, max_attempts, event_count, record_ids, queue, job_type, actor, payload)
  SELECT seq, $1::uuid, id, millrace.clock(), millrace.clock(), millrace.clock(), millrace.clock(),
    millrace.clock() + $7::int8 * interval '1 ms', seq, $5::int4, 'scheduled', $4::int2, $4::int2, $6::int2, 1, ARRAY[${RECORD_ID}],
    $2::text, $3::text, $8::text, payload FROM input
), made_ready AS (
  INSERT INTO millrace.ready (order_key, dies_at, org_id, priority, queue, job_type, seqs)
  SELECT min(seq), millrace.clock() + $7::int8 * interval '1 ms', $1::uuid, $4::int2, $2::text, $3::text, array_agg(seq ORDER BY seq)
  FROM input GROUP BY ${RUN_OF_NEIGHBOURS}
), recorded AS (
  INSERT INTO millrace.records (id, at, org_id, from_state, to_state, priority, job_type, reason, actor, seqs)
  SELECT ${RECORD_ID}, millrace.clock(), $1::uuid, 'pending', 'scheduled', $4::int2, $3::text, 'submitted', $8::text, array_agg(seq) FROM input
)
SELECT date_part('epoch', millrace.clock()) * 1000 AS at_ms`,
);

const isBare = ({ job, placement }: JobToWrite): boolean =>
  placement === null &&
  job.idempotencyKey === null &&
  job.runAt === null &&
  job.runAfterMs === null &&
  job.tags === null &&
  job.correlationId === null &&
  job.callbackUrl === null &&
  job.payload.kind === 'json';

/** Whether the jobs differ in nothing but their ids and payloads, and have nothing that few jobs have. */
export function areAlike(jobs: readonly JobToWrite[]): boolean {
  const first = jobs[0];
  if (first === undefined) return false;
  return jobs.every(
    (entry) =>
      isBare(entry) &&
      entry.orgId === first.orgId &&
      entry.policyId === first.policyId &&
      entry.actor === first.actor &&
      entry.job.type === first.job.type &&
      entry.job.queue === first.job.queue &&
      entry.job.priority === first.job.priority,
  );
}

/** Writes jobs that are alike, ready to run. Answers when, by the ledger's clock. */
export async function submitAlike(db: Queryable, jobs: readonly JobToWrite[]): Promise<number> {
  const { orgId, policyId, actor, job } = jobs[0] as JobToWrite;
  const [row] = await run<{ at_ms: number }>(db, SUBMIT, [
    ...[orgId, job.queue, job.type, job.priority, policyId, job.policy.maxAttempts, job.policy.lifetimeMs, actor],
    uuidArray(jobs.map((entry) => entry.id)),
    jsonArray(jobs.map((entry) => (entry.job.payload.kind === 'json' ? entry.job.payload.text : null))),
  ]);
  return Number(row?.at_ms);
}
