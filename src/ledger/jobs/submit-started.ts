import type { Claimed, ClaimParams, StartedJob } from '../attempts/claim-and-start.ts';
import { openRangesText } from '../attempts/claim-text.ts';
import { int2Array, int8Array, textArray } from '../driver/binary-array.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';
import { RECORD, RECORD_ID } from '../history/record-events.ts';
import type { JobToWrite } from './job-to-write.ts';

// Writes a single job for an idle worker in the same process, and starts it in the same statement. A job that is written by one statement
// and claimed by the next waits for two flushes of the log. This job is created running, with the events of both. If another job is ready
// before it, or its queue or type is paused, the statement writes no row and the job takes the usual path. It locks no row of another job.
// Measured from submit to handler, one job every 20 ms, six alternating runs: a median of 2.6 to 3.1 ms with two statements on one
// connection, 1.8 to 2.2 ms with this one. The second flush accounts for 0.4 ms of the difference.
const SUBMIT = statement(
  'submit_started_job',
  `WITH ${RECORD}, ranges AS MATERIALIZED (${openRangesText(13)}
), input AS MATERIALIZED (
  SELECT nextval('millrace.job_seq') AS seq, nextval('millrace.lease_seq') AS lease_seq
  WHERE EXISTS (SELECT FROM ranges l WHERE l.queue = $2::text AND l.job_type = $3::text AND l.priority = $4::int2)
    AND NOT EXISTS (SELECT FROM ranges l JOIN millrace.ready r
      ON r.queue = l.queue AND r.job_type = l.job_type AND r.priority = l.priority AND r.order_key >= l.floor)
), inserted AS (
  INSERT INTO millrace.jobs (seq, org_id, id, created_at, updated_at, run_at, scheduled_at, started_at, lifetime_deadline, order_key,
    policy_id, state, priority, requested_priority, max_attempts, attempts_started, worker_id, lease_seq, started_lease_seq, event_count,
    record_ids, queue, job_type, actor, payload, category, project_id, request_id, traceparent)
  SELECT seq, $1::uuid, $9::uuid, millrace.clock(), millrace.clock(), millrace.clock(), millrace.clock(), millrace.clock(),
    millrace.clock() + $7::int8 * interval '1 ms', seq, $5::int4, 'running', $4::int2, $4::int2, $6::int2, 1, $11::int8, lease_seq,
    lease_seq, 2, ARRAY[${RECORD_ID}, ${RECORD_ID}], $2::text, $3::text, $8::text, $10::json, $17::text, $18::uuid, $19::text, $20::text
  FROM input
), claimed AS (
  INSERT INTO millrace.claims (worker_id, claim_no, org_id, job_type, seqs)
  SELECT $11::int8, $12::int8, $1::uuid, $3::text, ARRAY[seq] FROM input
), recorded AS (
  INSERT INTO millrace.records (id, at, org_id, from_state, to_state, priority, job_type, queue, reason, seqs, actor, worker_id, ns, lease_seqs,
    attempts, rounds, took_ms)
  SELECT ${RECORD_ID}, millrace.clock(), $1::uuid, 'pending'::millrace.job_state, 'scheduled'::millrace.job_state, $4::int2, $3::text, $2::text,
    'submitted', ARRAY[seq], $8::text, NULL::int8, NULL::int4[], NULL::int8[], NULL::int2[], NULL::int2[], NULL::real[] FROM input
  UNION ALL
  SELECT ${RECORD_ID}, millrace.clock(), $1::uuid, 'scheduled', 'running', $4::int2, $3::text, NULL,
    'started', ARRAY[seq], NULL, $11::int8, ARRAY[2], ARRAY[lease_seq], ARRAY[1::int2], ARRAY[0::int2], ARRAY[0::real] FROM input
)
SELECT seq, lease_seq, date_part('epoch', millrace.clock()) * 1000 AS at_ms FROM input`,
);

type Row = { seq: number; lease_seq: number; at_ms: number };

/** Writes a bare job and starts it, if no job in these ranges is ready before it. Otherwise writes no row and returns no job. */
export async function submitStarted(db: Queryable, entry: JobToWrite, params: ClaimParams): Promise<Claimed> {
  const { job, actor } = entry;
  const { envelope, policy } = job;
  const { workerId, claimNo, ranges } = params;
  const rows = await run<Row>(db, SUBMIT, [
    ...[entry.orgId, job.queue, job.type, job.priority, entry.policyId, policy.maxAttempts, policy.lifetimeMs, actor],
    ...[entry.id, textOf(entry), workerId, claimNo],
    textArray(ranges.map((range) => range.queue)),
    textArray(ranges.map((range) => range.jobType)),
    int2Array(ranges.map((range) => range.priority)),
    int8Array(ranges.map((range) => range.floor)),
    ...[envelope?.category, envelope?.projectId, envelope?.requestId, envelope?.traceparent],
  ]);
  return { jobs: rows.map((row) => startedOf(entry, row)), hasMore: false };
}

/** Runs the statement without a range. It writes no row, but PostgreSQL plans it. */
export const startNone = (db: Queryable): Promise<unknown> =>
  run(db, SUBMIT, [...Array(12).fill(null), textArray([]), textArray([]), int2Array([]), int8Array([]), ...Array(4).fill(null)]);

const textOf = ({ job: { payload } }: JobToWrite): string | null => (payload.kind === 'json' ? payload.text : null);

/** The job as a claim would have read it. */
function startedOf(entry: JobToWrite, { seq, lease_seq: leaseSeq, at_ms: atMs }: Row): StartedJob {
  const { orgId, id, policyId, job, actor } = entry;
  return {
    orgId,
    seq,
    id,
    leaseSeq,
    previousLeaseSeq: 0,
    jobType: job.type,
    queue: job.queue,
    priority: job.priority,
    orderKey: seq,
    attemptsStarted: 1,
    maxAttempts: job.policy.maxAttempts,
    policyId,
    createdAtMs: atMs,
    lifetimeLeftMs: job.policy.lifetimeMs,
    payload: JSON.parse(textOf(entry) ?? 'null'),
    payloadBytes: null,
    idempotencyKey: null,
    correlationId: job.envelope?.requestId ?? null,
    traceparent: job.envelope?.traceparent ?? null,
    tags: null,
    projectId: job.envelope?.projectId ?? null,
    limitId: null,
    plannedAtMs: null,
    category: job.envelope?.category ?? null,
    requestId: job.envelope?.requestId ?? null,
    actor,
    permanentFailures: null,
  };
}
