import { int2Array, int8Array, textArray } from './binary-array.ts';
import { candidatesText, cappedCandidatesText, cappedLanesText, lanesText, leasedText } from './claim-text.ts';
import { countedText, RECORD, recordedText, tookText } from './record-events.ts';
import { type Queryable, run, statement } from './statement.ts';

// The hot path in: take ready jobs, lease them, start them, in one statement. It runs beside \`complete-jobs.ts\`, each on a
// connection of its own. Measured on 2 cores with full history and 64 slots: 30 000 to 37 000 jobs/s drained, 29 000 to 32 000
// when one statement did both, 24 000 with a third for the start. Rejected: two of these at once (they fight for the head of
// the line); a lease row per job (two index entries a job); FOR UPDATE inside each lane (locks lanes x limit rows).

/** Where to look for work: one queue, type and priority, from `floor` on. */
export type Lane = { queue: string; jobType: string; priority: number; floor: number };

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

export type TakeParams = { workerId: number; lanes: readonly Lane[]; limit: number; claimNo: number };

const STARTED_COLUMNS = `org_id, seq, id, lease_seq, previous_lease_seq, job_type, queue, priority, order_key, attempts_started,
  max_attempts, policy_id, created_at, lifetime_deadline, payload, payload_bytes, idempotency_key, correlation_id, tags`;

// Parameters: worker, limit, claim number, then the lanes. The clock is that of the transaction, and one that waited for its room
// may have begun before the job was ready: a job still starts no earlier than that.
function takeText({ lanes, candidates }: { lanes: string; candidates: string }): string {
  return `
WITH ${RECORD}, lanes AS MATERIALIZED (${lanes}
), candidates AS MATERIALIZED (${candidates}
), ${leasedText(2)}
, started AS (
  UPDATE millrace.jobs j SET state = 'running', worker_id = $1::int8, lease_seq = l.lease_seq, previous_lease_seq = j.started_lease_seq,
    started_lease_seq = l.lease_seq, started_at = greatest(millrace.clock(), j.scheduled_at), updated_at = millrace.clock(),
    attempts_started = j.attempts_started + 1, ${countedText()}
  FROM leased l WHERE j.org_id = l.org_id AND j.seq = l.seq AND j.state = 'scheduled' AND j.worker_id IS NULL
  RETURNING ${STARTED_COLUMNS.replace(/\w+/g, (column) => `j.${column}`)}, j.event_count, j.round, ${tookText('j.scheduled_at')} AS took_ms
), claimed AS (
  INSERT INTO millrace.claims (worker_id, claim_no, org_id, job_type, seqs)
  SELECT $1::int8, $3::int8, org_id, job_type, array_agg(seq) FROM started GROUP BY org_id, job_type
), recorded AS (
  ${recordedText({
    ...{ source: 'started', from: `'scheduled'`, to: `'running'`, reason: `'started'` },
    ...{ workerId: '$1::int8', tookMs: 'took_ms' },
  })}
)
SELECT org_id, seq, id, lease_seq, previous_lease_seq, job_type, queue, priority, order_key, attempts_started,
       max_attempts, policy_id, date_part('epoch', created_at) * 1000 AS created_at_ms,
       date_part('epoch', lifetime_deadline - millrace.clock()) * 1000 AS lifetime_left_ms,
       payload, payload_bytes, idempotency_key, correlation_id, tags
FROM started`;
}

const TAKE = statement('take_jobs', takeText({ lanes: lanesText(4), candidates: candidatesText(2) }));
const TAKE_CAPPED = statement(
  'take_capped_jobs',
  takeText({ lanes: cappedLanesText(4, 8), candidates: cappedCandidatesText(2, 9) }),
);

/** As the statements that give jobs to workers answer. */
export type StartedRow = {
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

/** Claims and starts ready jobs, in claim order, at most `limit`. */
export async function takeJobs(db: Queryable, params: TakeParams): Promise<StartedJob[]> {
  return (await run<StartedRow>(db, TAKE, parametersOf(params))).map(toStartedJob);
}

/** How many more jobs of each type and of each capped org may run. Types without a cap are absent. */
export type Room = { types: ReadonlyMap<string, number>; orgs: ReadonlyMap<string, number> };

const UNLIMITED = 0x7fff_ffff;

/** The same within the room that `claim-room.ts` found and keeps locked. */
export async function takeCappedJobs(db: Queryable, params: TakeParams, room: Room): Promise<StartedJob[]> {
  const full = [...room.orgs].filter(([, left]) => left <= 0).map(([orgId]) => orgId);
  const values = [
    ...parametersOf(params),
    params.lanes.map((lane) => room.types.get(lane.jobType) ?? UNLIMITED),
    [...room.orgs.keys()],
    [...room.orgs.values()],
    full,
  ];
  return (await run<StartedRow>(db, TAKE_CAPPED, values)).map(toStartedJob);
}

function parametersOf({ workerId, lanes, limit, claimNo }: TakeParams): unknown[] {
  return [
    workerId,
    limit,
    claimNo,
    textArray(lanes.map((lane) => lane.queue)),
    textArray(lanes.map((lane) => lane.jobType)),
    int2Array(lanes.map((lane) => lane.priority)),
    int8Array(lanes.map((lane) => lane.floor)),
  ];
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
