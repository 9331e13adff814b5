import { int2Array, int8Array, textArray } from '../driver/binary-array.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';
import { countedText, RECORD, recordedText, tookText } from '../history/record-events.ts';
import {
  candidatesText,
  cappedCandidatesText,
  cappedLanesText,
  IS_STILL_THERE,
  lanesText,
  leasedText,
} from './claim-text.ts';

// The hot path in: take ready jobs, lease them, start them, in one statement. It runs beside \`complete-jobs.ts\`, each on a
// connection of its own. Measured on 2 cores with full history and 64 slots: 30 000 to 37 000 jobs/s drained, 29 000 to 32 000
// when one statement did both, 24 000 with a third for the start. Rejected: two of these at once (they fight for the head of
// the line); a lease row per job (two index entries a job); FOR UPDATE inside each lane (locks lanes x limit rows).

/**
 * Where to look for work: one queue, type and priority, from `floor` on. Among lanes of one priority, those of a lower `rank` come
 * first; without one, all are in one line.
 */
export type Lane = { queue: string; jobType: string; priority: number; floor: number; rank?: number };

const ranksOf = (lanes: readonly Lane[]): Buffer => int2Array(lanes.map(({ rank = 0 }) => rank));

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
  /** As given, else the id of the request where that is not the job's own. */
  correlationId: string | null;
  traceparent: string | null;
  tags: Record<string, string> | null;
};

export type TakeParams = {
  workerId: number;
  lanes: readonly Lane[];
  limit: number;
  claimNo: number;
  /** How many runs to look at in each lane; a run has one job at least. */
  runs?: number;
};

export type Taken = {
  /** Where they start apart, under lease and not started yet. */
  jobs: StartedJob[];
  /** There may be more in line: other claims held it at this moment, or what was met here were tokens of jobs that moved on. */
  hasMore: boolean;
};

/** Whatever brought the job correlates it where the caller did not. */
export const CORRELATION = 'coalesce(j.correlation_id, j.request_id) AS correlation_id';

const STARTED_COLUMNS = `org_id, seq, id, lease_seq, previous_lease_seq, job_type, queue, priority, order_key, attempts_started,
  max_attempts, policy_id, created_at, lifetime_deadline, payload, payload_bytes, idempotency_key, correlation_id, traceparent, tags`;

const RETURNED_COLUMNS = STARTED_COLUMNS.replace(/\w+/g, (column) => {
  if (column === 'correlation_id') return CORRELATION;
  return column === 'order_key' ? `l.${column}` : `j.${column}`;
});

/** What a statement that gives jobs to a worker answers, member by member: no row is copied into another shape. */
export const startedText = (
  previousLease: string,
): string => `org_id AS "orgId", seq AS "seq", id AS "id", lease_seq AS "leaseSeq",
  ${previousLease} AS "previousLeaseSeq", job_type AS "jobType", queue AS "queue", priority AS "priority", order_key AS "orderKey",
  attempts_started AS "attemptsStarted", max_attempts AS "maxAttempts", policy_id AS "policyId",
  date_part('epoch', created_at) * 1000 AS "createdAtMs",
  date_part('epoch', lifetime_deadline - millrace.clock()) * 1000 AS "lifetimeLeftMs",
  payload AS "payload", payload_bytes AS "payloadBytes", idempotency_key AS "idempotencyKey", correlation_id AS "correlationId",
  traceparent AS "traceparent", tags AS "tags"`;

/** One row more, of nulls, where there may be more in line than the limit in `$2` asked for and `given` has. */
export const withMoreText = (
  given: string,
): string => `UNION ALL SELECT ${Array.from(startedText('x').matchAll(/ AS "/g), () => 'NULL').join(', ')}
WHERE (SELECT count(*) FROM ${given}) < $2::int4 AND ((SELECT count(*) FROM candidates) > (SELECT count(*) FROM picked)
  OR (SELECT count(*) FROM leased) > (SELECT count(*) FROM ${given}))`;

/** Where statements that give jobs to a worker look for them, by the parameters below; the second within the room of `claim-room.ts`. */
export const IN_LINE = { lanes: lanesText(4, 9), candidates: candidatesText({ limit: 2, runs: 8 }) };
export const IN_LINE_WITH_ROOM = {
  lanes: cappedLanesText({ first: 4, ranks: 9, rooms: 10 }),
  candidates: cappedCandidatesText({ limit: 2, runs: 8, orgs: 11 }),
};

// Parameters: worker, limit, claim number, the lanes in four, how many runs to look at, the ranks of the lanes. The clock is that of the
// statement, and a job may be committed between its reading and the snapshot: no job starts before it was ready.
function takeText({ lanes, candidates }: typeof IN_LINE): string {
  return `
WITH ${RECORD}, lanes AS MATERIALIZED (${lanes}
), candidates AS MATERIALIZED (${candidates}
), ${leasedText(2)}
, started AS (
  UPDATE millrace.jobs j SET state = 'running', worker_id = $1::int8, lease_seq = l.lease_seq, previous_lease_seq = j.started_lease_seq,
    started_lease_seq = l.lease_seq, started_at = greatest(millrace.clock(), j.scheduled_at), updated_at = millrace.clock(),
    attempts_started = j.attempts_started + 1, ${countedText()}
  FROM leased l WHERE j.org_id = l.org_id AND j.seq = l.seq AND ${IS_STILL_THERE}
  RETURNING ${RETURNED_COLUMNS}, j.event_count, j.round, ${tookText('j.scheduled_at', 'j.started_at')} AS took_ms
), claimed AS (
  INSERT INTO millrace.claims (worker_id, claim_no, org_id, job_type, seqs)
  SELECT $1::int8, $3::int8, org_id, job_type, array_agg(seq) FROM started GROUP BY org_id, job_type
), recorded AS (
  ${recordedText({
    source: 'started',
    from: `'scheduled'`,
    to: `'running'`,
    reason: `'started'`,
    workerId: '$1::int8',
    tookMs: 'took_ms',
  })}
)
SELECT ${startedText('previous_lease_seq')} FROM started
${withMoreText('started')}`;
}

const TAKE = statement('take_jobs', takeText(IN_LINE));
const TAKE_CAPPED = statement('take_capped_jobs', takeText(IN_LINE_WITH_ROOM));

/** Claims and starts ready jobs, in claim order, at most `limit`. */
export async function takeJobs(db: Queryable, params: TakeParams): Promise<Taken> {
  return takenOf(await run<StartedJob>(db, TAKE, parametersOf(params)));
}

/** What a statement that ends in `withMoreText` answered. */
export function takenOf(rows: StartedJob[]): Taken {
  const hasMore = rows.at(-1)?.seq === null;
  if (hasMore) rows.pop();
  return { jobs: rows, hasMore };
}

/** How many more jobs of each type and of each capped org may run. Types without a cap are absent. */
export type Room = { types: ReadonlyMap<string, number>; orgs: ReadonlyMap<string, number> };

const UNLIMITED = 0x7fff_ffff;

/** The same within the room that `claim-room.ts` found and keeps locked. */
export async function takeCappedJobs(db: Queryable, params: TakeParams, room: Room): Promise<Taken> {
  return takenOf(await run<StartedJob>(db, TAKE_CAPPED, [...parametersOf(params), ...roomParametersOf(params, room)]));
}

/** Four parameters: what `cappedLanesText` and `cappedCandidatesText` ask for. */
export function roomParametersOf({ lanes }: TakeParams, room: Room): unknown[] {
  const full = [...room.orgs].filter(([, left]) => left <= 0).map(([orgId]) => orgId);
  return [
    lanes.map((lane) => room.types.get(lane.jobType) ?? UNLIMITED),
    [...room.orgs.keys()],
    [...room.orgs.values()],
    full,
  ];
}

/** Nine parameters, for every statement that gives jobs to a worker. */
export function parametersOf({ workerId, lanes, limit, claimNo, runs = limit }: TakeParams): unknown[] {
  return [
    workerId,
    limit,
    claimNo,
    textArray(lanes.map((lane) => lane.queue)),
    textArray(lanes.map((lane) => lane.jobType)),
    int2Array(lanes.map((lane) => lane.priority)),
    int8Array(lanes.map((lane) => lane.floor)),
    runs,
    ranksOf(lanes),
  ];
}
