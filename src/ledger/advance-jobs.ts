import { int2Array, int8Array, jsonArray, textArray, uuidArray } from './binary-array.ts';
import { candidatesText, cappedCandidatesText, cappedLanesText, lanesText, leasedText } from './claim-text.ts';
import { type Queryable, run, statement } from './statement.ts';

// The hot path: finish what handlers returned and claim and start the next, in one statement.
// Measured on 2 cores with full history, 64 jobs a statement: 2.1 ms; claim, start and finish as three statements on three
// connections: 2.9 ms of the same work, because each looks the job up again. 500 jobs a statement: 12.5 ms.
// Rejected: two of these under way at once (they fight for the tail pages of `events` and cost 60 % more CPU a job);
// a lease row per job (two index entries a job); FOR UPDATE inside each lane (locks lanes x limit rows to take limit).

/** Where to look for work: one queue, type and priority, from `floor` on. */
export type Lane = { queue: string; jobType: string; priority: number; floor: number };

export type FinishedJob = { orgId: string; seq: number; leaseSeq: number; result: string | null };

export type StartedJob = {
  orgId: string;
  seq: number;
  id: string;
  leaseSeq: number;
  previousLeaseSeq: number;
  jobType: string;
  queue: string;
  priority: number;
  orderKey: number;
  attemptsStarted: number;
  maxAttempts: number;
  policyId: number;
  createdAtMs: number;
  lifetimeLeftMs: number | null;
  payload: unknown;
  payloadBytes: Buffer | null;
  idempotencyKey: string | null;
  correlationId: string | null;
  tags: Record<string, string> | null;
};

export type AdvanceParams = {
  workerId: number;
  finished: readonly FinishedJob[];
  lanes: readonly Lane[];
  limit: number;
  claimNo: number;
  /** Claims whose jobs have all ended. */
  closedClaims: readonly number[];
};

export type Advanced = { landed: Set<number>; released: boolean; started: StartedJob[] };

export const STARTED_COLUMNS = `org_id, seq, id, lease_seq, previous_lease_seq, job_type, queue, priority, order_key, attempts_started,
  max_attempts, policy_id, created_at, lifetime_deadline, payload, payload_bytes, idempotency_key, correlation_id, tags`;

function advanceText({ lanes, candidates }: { lanes: string; candidates: string }): string {
  return `
WITH finished AS MATERIALIZED (
  SELECT * FROM unnest($2::uuid[], $3::int8[], $4::int8[], $5::json[]) AS f(org_id, seq, lease_seq, result)
), done AS (
  UPDATE millrace.jobs j SET state = 'completed', result = f.result, completed_at = millrace.clock(),
    updated_at = millrace.clock(), worker_id = NULL, event_count = j.event_count + 1
  FROM finished f
  WHERE j.org_id = f.org_id AND j.seq = f.seq AND j.lease_seq = f.lease_seq AND j.state = 'running' AND j.worker_id = $1::int8
  RETURNING j.org_id, j.seq, j.lease_seq, j.event_count, j.attempts_started, j.round, j.has_dependents OR j.joins_parent AS is_awaited
), released AS (
  INSERT INTO millrace.releases (org_id, seq) SELECT org_id, seq FROM done WHERE is_awaited
), lanes AS MATERIALIZED (${lanes}
), candidates AS MATERIALIZED (${candidates}
), ${leasedText(10)}
, started AS (
  UPDATE millrace.jobs j SET state = 'running', worker_id = $1::int8, lease_seq = l.lease_seq, previous_lease_seq = j.started_lease_seq,
    started_lease_seq = l.lease_seq, started_at = millrace.clock(), updated_at = millrace.clock(),
    attempts_started = j.attempts_started + 1, event_count = j.event_count + 1
  FROM leased l WHERE j.org_id = l.org_id AND j.seq = l.seq AND j.state = 'scheduled' AND j.worker_id IS NULL
  RETURNING ${STARTED_COLUMNS.replace(/\w+/g, (column) => `j.${column}`)}, j.event_count, j.round
), claimed AS (
  INSERT INTO millrace.claims (worker_id, claim_no, org_id, job_type, seqs)
  SELECT $1::int8, $11::int8, org_id, job_type, array_agg(seq) FROM started GROUP BY org_id, job_type
), closed AS (
  DELETE FROM millrace.claims c USING unnest($12::int8[]) AS k(claim_no) WHERE c.worker_id = $1::int8 AND c.claim_no = k.claim_no
), recorded AS (
  INSERT INTO millrace.events (at, job_seq, org_id, worker_id, lease_seq, from_state, to_state, n, attempt, round, reason)
  SELECT millrace.clock(), seq, org_id, $1::int8, lease_seq, 'running'::millrace.job_state, 'completed'::millrace.job_state,
         event_count, attempts_started, round, 'succeeded' FROM done
  UNION ALL
  SELECT millrace.clock(), seq, org_id, $1::int8, lease_seq, 'scheduled', 'running', event_count, attempts_started, round, 'started'
  FROM started
)
SELECT (SELECT string_agg(lease_seq::text, ',') FROM done) AS landed, (SELECT bool_or(is_awaited) FROM done) AS released,
       NULL::uuid AS org_id, NULL::int8 AS seq, NULL::uuid AS id, NULL::int8 AS lease_seq, NULL::int8 AS previous_lease_seq,
       NULL::text AS job_type, NULL::text AS queue, NULL::int2 AS priority, NULL::int8 AS order_key, NULL::int2 AS attempts_started,
       NULL::int2 AS max_attempts, NULL::int4 AS policy_id, NULL::float8 AS created_at_ms, NULL::float8 AS lifetime_left_ms,
       NULL::json AS payload, NULL::bytea AS payload_bytes, NULL::text AS idempotency_key, NULL::text AS correlation_id, NULL::jsonb AS tags
UNION ALL
SELECT NULL, NULL, org_id, seq, id, lease_seq, previous_lease_seq, job_type, queue, priority, order_key, attempts_started,
       max_attempts, policy_id, extract(epoch FROM created_at)::float8 * 1000,
       extract(epoch FROM lifetime_deadline - millrace.clock())::float8 * 1000,
       payload, payload_bytes, idempotency_key, correlation_id, tags
FROM started`;
}

const ADVANCE = statement('advance_jobs', advanceText({ lanes: lanesText(6), candidates: candidatesText(10) }));
const ADVANCE_CAPPED = statement(
  'advance_capped_jobs',
  advanceText({ lanes: cappedLanesText(6, 13), candidates: cappedCandidatesText(10, 14) }),
);

export type StartedRow = {
  landed: string | null;
  released: boolean | null;
  org_id: string;
  seq: number;
  id: string;
  lease_seq: number;
  previous_lease_seq: number;
  job_type: string;
  queue: string;
  priority: number;
  order_key: number;
  attempts_started: number;
  max_attempts: number;
  policy_id: number;
  created_at_ms: number;
  lifetime_left_ms: number | null;
  payload: unknown;
  payload_bytes: Buffer | null;
  idempotency_key: string | null;
  correlation_id: string | null;
  tags: Record<string, string> | null;
};

export async function advanceJobs(db: Queryable, params: AdvanceParams): Promise<Advanced> {
  return toAdvanced(await run<StartedRow>(db, ADVANCE, parametersOf(params)));
}

/** How many more jobs of each type and of each capped org may run. Types without a cap are absent. */
export type Room = { types: ReadonlyMap<string, number>; orgs: ReadonlyMap<string, number> };

const UNLIMITED = 0x7fff_ffff;

export async function advanceCappedJobs(db: Queryable, params: AdvanceParams, room: Room): Promise<Advanced> {
  const full = [...room.orgs].filter(([, left]) => left <= 0).map(([orgId]) => orgId);
  const values = [
    ...parametersOf(params),
    params.lanes.map((lane) => room.types.get(lane.jobType) ?? UNLIMITED),
    [...room.orgs.keys()],
    [...room.orgs.values()],
    full,
  ];
  return toAdvanced(await run<StartedRow>(db, ADVANCE_CAPPED, values));
}

function parametersOf({ workerId, finished, lanes, limit, claimNo, closedClaims }: AdvanceParams): unknown[] {
  return [
    workerId,
    uuidArray(finished.map((job) => job.orgId)),
    int8Array(finished.map((job) => job.seq)),
    int8Array(finished.map((job) => job.leaseSeq)),
    jsonArray(finished.map((job) => job.result)),
    textArray(lanes.map((lane) => lane.queue)),
    textArray(lanes.map((lane) => lane.jobType)),
    int2Array(lanes.map((lane) => lane.priority)),
    int8Array(lanes.map((lane) => lane.floor)),
    limit,
    claimNo,
    int8Array(closedClaims),
  ];
}

function toAdvanced([header, ...rows]: StartedRow[]): Advanced {
  const landed = header?.landed ?? null;
  return {
    landed: new Set(landed === null ? [] : landed.split(',').map(Number)),
    released: header?.released === true,
    started: rows.map(toStartedJob),
  };
}

export function toStartedJob(row: StartedRow): StartedJob {
  return {
    orgId: row.org_id,
    seq: row.seq,
    id: row.id,
    leaseSeq: row.lease_seq,
    previousLeaseSeq: row.previous_lease_seq,
    jobType: row.job_type,
    queue: row.queue,
    priority: row.priority,
    orderKey: row.order_key,
    attemptsStarted: row.attempts_started,
    maxAttempts: row.max_attempts,
    policyId: row.policy_id,
    createdAtMs: row.created_at_ms,
    lifetimeLeftMs: row.lifetime_left_ms,
    payload: row.payload,
    payloadBytes: row.payload_bytes,
    idempotencyKey: row.idempotency_key,
    correlationId: row.correlation_id,
    tags: row.tags,
  };
}
