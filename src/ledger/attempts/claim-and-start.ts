import { boolArray, int2Array, int4Array, int8Array, textArray, uuidArray } from '../driver/binary-array.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';
import { countedText, RECORD, recordedText, tookText } from '../history/record-events.ts';
import { IS_STILL_THERE, LEASED_IN_LINE } from './claim-text.ts';
import { LEASED_IN_TURN, LEASED_WITHIN_QUEUES } from './claim-turns-text.ts';

// The hot path in: takes ready jobs, leases and starts them in one statement. It runs in parallel with `complete-jobs.ts`, on another
// connection. Measured on 2 cores with full history and 64 slots: 30 000 to 37 000 jobs/s drained, 29 000 to 32 000 when one statement
// did both, 24 000 with a third statement for the start. Rejected: two of these at the same time (they compete for the head of the queue); a
// lease row per job (two index entries a job); FOR UPDATE inside each range (locks ranges x limit rows).

/**
 * A place to look for work: one queue, type and priority, from `floor` on. Among ranges of one priority, a lower `rank` comes first.
 * Without ranks, their jobs are taken in one order. `inTurn`: the queue is fair, so its orgs take turns.
 */
export type ReadyRange = { queue: string; jobType: string; priority: number; floor: number; rank?: number; inTurn?: boolean };

const ranksOf = (ranges: readonly ReadyRange[]): Buffer => int2Array(ranges.map(({ rank = 0 }) => rank));

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
  /** The caller's value, or the id of the request if that differs from the job's id. */
  correlationId: string | null;
  traceparent: string | null;
  tags: Record<string, string> | null;
  projectId: string | null;
  /** Null for a job without a limit. */
  limitId: number | null;
  /** The scheduled run that submitted it. Null for a job that no schedule submitted. */
  plannedAtMs: number | null;
  category: string | null;
  /** Null if the request has the id of the job. */
  requestId: string | null;
  /** Who submitted the job, as the ledger stores it. */
  actor: string | null;
  /** Manual retries that followed a permanent failure. Null: none. */
  permanentFailures: number | null;
};

export type ClaimParams = {
  workerId: number;
  ranges: readonly ReadyRange[];
  limit: number;
  claimNo: number;
  /** How many runs to read in each range. A run has at least one job. */
  runs?: number;
};

export type Claimed = {
  /** Where jobs start separately, they are leased and not started yet. */
  jobs: StartedJob[];
  /** There may be more ready jobs: other claims owned them at that moment, or the tokens found here belonged to jobs that moved on. */
  hasMore: boolean;
  /** How many orgs had jobs in fair queues that this claim could have taken. Only a claim in turns looks for them. */
  orgs?: number;
  /** How long the database took to find these orgs. */
  foundMs?: number;
  /** What the caps and rates of queues left, if the claim looked into queues that have any. */
  queueRoom?: { readonly isFull: boolean; readonly waitMs: number | null };
};

/** The request that submitted the job correlates it if the caller gave no value. */
export const CORRELATION = 'coalesce(j.correlation_id, j.request_id) AS correlation_id';

const STARTED_COLUMNS = `org_id, seq, id, lease_seq, previous_lease_seq, job_type, queue, priority, order_key, attempts_started,
  max_attempts, policy_id, created_at, lifetime_deadline, payload, payload_bytes, idempotency_key, correlation_id, traceparent, tags, project_id, limit_id, planned_at,
  category, request_id, actor, permanent_failures`;

const RETURNED_COLUMNS = STARTED_COLUMNS.replace(/\w+/g, (column) => {
  if (column === 'correlation_id') return CORRELATION;
  return column === 'order_key' ? `l.${column}` : `j.${column}`;
});

/** The columns that a statement returns when it gives jobs to a worker. Their names match the members, so that no row is copied. */
export const startedText = (previousLease: string): string => `org_id AS "orgId", seq AS "seq", id AS "id", lease_seq AS "leaseSeq",
  ${previousLease} AS "previousLeaseSeq", job_type AS "jobType", queue AS "queue", priority AS "priority", order_key AS "orderKey",
  attempts_started AS "attemptsStarted", max_attempts AS "maxAttempts", policy_id AS "policyId",
  date_part('epoch', created_at) * 1000 AS "createdAtMs",
  date_part('epoch', lifetime_deadline - millrace.clock()) * 1000 AS "lifetimeLeftMs",
  payload AS "payload", payload_bytes AS "payloadBytes", idempotency_key AS "idempotencyKey", correlation_id AS "correlationId",
  traceparent AS "traceparent", tags AS "tags", project_id AS "projectId", limit_id AS "limitId",
  date_part('epoch', planned_at) * 1000 AS "plannedAtMs", category AS "category", request_id AS "requestId", actor AS "actor",
  permanent_failures AS "permanentFailures"`;

const NULLS = Array.from(startedText('x').matchAll(/ AS "/g), () => 'NULL').join(', ');
const mayHaveMore = (given: string): string => `(SELECT count(*) FROM ${given}) < $2::int4
  AND ((SELECT count(*) FROM candidates) > (SELECT count(*) FROM picked) OR (SELECT count(*) FROM leased) > (SELECT count(*) FROM ${given}))`;

/** How a statement finds jobs, and what it returns in addition to the jobs in `given`. */
export type ClaimOrder = { leased: string; columns: string; note(given: string): string };

/** By submission over all orgs. The note is a row of nulls if there may be more ready jobs than the claim was given. */
export const IN_LINE: ClaimOrder = {
  leased: LEASED_IN_LINE,
  columns: '',
  note: (given) => `UNION ALL SELECT ${NULLS} WHERE ${mayHaveMore(given)}`,
};

/** In turns between orgs. The note is always there. */
export const IN_TURN: ClaimOrder = {
  leased: LEASED_IN_TURN,
  columns: `, NULL::bool AS "hasMore", NULL::int4 AS "orgs", NULL::float8 AS "foundMs"`,
  note: (given) => `UNION ALL SELECT ${NULLS}, ${mayHaveMore(given)}, share.orgs, coalesce(share.took_ms, 0) FROM share`,
};

/** Like `IN_TURN`, within the caps and rates of queues. */
export const WITHIN_QUEUES: ClaimOrder = { ...IN_TURN, leased: LEASED_WITHIN_QUEUES };

// A job that got its turn when another one ended must not seem to start before that end. The end is in the snapshot, so the start is read
// from the clock after the snapshot was taken.
const STARTS = RECORD.replace(' AS id', ' AS id, millrace.clock_after_snapshot() AS at');
const STARTED_AT = '(SELECT at FROM record)';

// Parameters: worker, limit, claim number, the ranges as four arrays, how many runs to read, the ranks of the ranges. The start is never
// earlier than the time at which the job became ready, even if the clock was set back.
function claimAndStartText({ leased, columns, note }: ClaimOrder): string {
  return `
WITH ${STARTS}, ${leased}
, started AS (
  UPDATE millrace.jobs j SET state = 'running', worker_id = $1::int8, lease_seq = l.lease_seq, previous_lease_seq = j.started_lease_seq,
    started_lease_seq = l.lease_seq, started_at = greatest(${STARTED_AT}, j.scheduled_at), updated_at = ${STARTED_AT},
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
    at: STARTED_AT,
    workerId: '$1::int8',
    tookMs: 'took_ms',
  })}
)
SELECT ${startedText('previous_lease_seq')}${columns} FROM started
${note('started')}`;
}

const CLAIM_AND_START = statement('claim_and_start', claimAndStartText(IN_LINE));
const CLAIM_AND_START_IN_TURN = statement('claim_and_start_in_turn', claimAndStartText(IN_TURN));
const CLAIM_AND_START_WITHIN_QUEUES = statement('claim_and_start_within_queues', claimAndStartText(WITHIN_QUEUES));

/** Claims and starts at most `limit` ready jobs, in claim order. */
export async function claimAndStart(db: Queryable, params: ClaimParams): Promise<Claimed> {
  return takenOf(await run<StartedJob>(db, CLAIM_AND_START, parametersOf(params)));
}

/** Like `claimAndStart`, but orgs take turns, and caps apply. */
export async function claimAndStartInTurn(db: Queryable, params: TurnParams): Promise<Claimed> {
  return takenOf(await run<StartedJob>(db, CLAIM_AND_START_IN_TURN, turnParametersOf(params)));
}

/** Like `claimAndStartInTurn`, within what the caps and rates of queues leave. */
export async function claimAndStartWithinQueues(db: Queryable, params: QueueTurnParams): Promise<Claimed> {
  return takenOf(await run<StartedJob>(db, CLAIM_AND_START_WITHIN_QUEUES, queueTurnParametersOf(params)));
}

type NotedJob = StartedJob & { hasMore?: boolean | null; orgs?: number; foundMs?: number };

/** Converts the rows of a statement that ends in the note of a `ClaimOrder`. */
export function takenOf(rows: NotedJob[]): Claimed {
  const note = rows.at(-1)?.seq === null ? rows.pop() : undefined;
  return { jobs: rows, hasMore: note !== undefined && (note.hasMore ?? true), orgs: note?.orgs, foundMs: note?.foundMs };
}

/** How many more jobs of each type and of each capped org may run. Types without a cap are absent. */
export type Caps = { types: ReadonlyMap<string, number>; orgs: ReadonlyMap<string, number> };

/** Also the orgs of each type that the worker serves for some orgs only. */
type Room = Caps & { orgsOfTypes?: OrgsOfTypes };

/** The orgs for which a worker serves a type. Types that it serves for every org are absent. */
export type OrgsOfTypes = ReadonlyMap<string, readonly string[]>;

export type TurnParams = ClaimParams & {
  /** By priority: where the claim begins to look for orgs. It does not find all if there are very many. */
  cursors: readonly string[];
  /** When each org was last served. Of two orgs of which the worker has the same number of jobs, the lower one comes first. */
  lastTurns: ReadonlyMap<string, number>;
  /** How many jobs the worker has of each org. Of two orgs, the one with fewer comes first. */
  owned: ReadonlyMap<string, number>;
  /** Only orgs of which the worker has fewer jobs than this, and one job of each. */
  fewerThan?: number;
  /** What the caps leave, which `claim-room.ts` read and keeps locked. */
  room?: Room;
};

/** `queueRooms`: how many more jobs of each queue with a cap or a rate may start. Other queues are absent. */
export type QueueTurnParams = TurnParams & { queueRooms: ReadonlyMap<string, number> };

const UNLIMITED = 0x7fff_ffff;
const NO_CAPS: Room = { types: new Map(), orgs: new Map() };
/** How many orgs are found beyond those that the claim can serve. */
const SPARE_ORGS = 16;

/** The twenty parameters of a claim in turns. */
export function turnParametersOf(params: TurnParams): unknown[] {
  const { ranges, limit, cursors, owned, lastTurns, fewerThan, room = NO_CAPS } = params;
  const isForFew = fewerThan !== undefined;
  const orgs = [...new Set([...owned.keys(), ...lastTurns.keys(), ...room.orgs.keys()])];
  const leftOut = orgs.filter((org) => (room.orgs.get(org) ?? 1) <= 0 || (isForFew && (owned.get(org) ?? 0) >= fewerThan));
  return [
    ...parametersOf(params),
    uuidArray(ranges.map(({ priority }) => cursors[priority] ?? NO_ORG)),
    boolArray(ranges.map(({ inTurn = false }) => inTurn || isForFew)),
    int4Array(ranges.map(({ jobType }) => room.types.get(jobType) ?? UNLIMITED)),
    uuidArray(orgs),
    int4Array(orgs.map((org) => owned.get(org) ?? 0)),
    int8Array(orgs.map((org) => lastTurns.get(org) ?? 0)),
    int4Array(orgs.map((org) => room.orgs.get(org) ?? null)),
    uuidArray(leftOut),
    isForFew ? 1 : limit,
    limit + leftOut.length + SPARE_ORGS,
    textArray(ranges.map(({ jobType }) => arrayText(room.orgsOfTypes?.get(jobType)))),
  ];
}

/** One parameter more: what the caps and rates of queues leave. */
export const queueTurnParametersOf = (params: QueueTurnParams): unknown[] => [
  ...turnParametersOf(params),
  int4Array(params.ranges.map(({ queue }) => Math.min(params.queueRooms.get(queue) ?? UNLIMITED, UNLIMITED))),
];

/** Arrays inside an array must have equal lengths, so each one is sent as text. */
const arrayText = (ids: readonly string[] | undefined): string | null => (ids === undefined ? null : `{${ids.join(',')}}`);

/** Comes before every org. */
export const NO_ORG = '00000000-0000-0000-0000-000000000000';

/** The first nine parameters of every statement that gives jobs to a worker. */
export function parametersOf({ workerId, ranges, limit, claimNo, runs = limit }: ClaimParams): unknown[] {
  return [
    workerId,
    limit,
    claimNo,
    textArray(ranges.map((range) => range.queue)),
    textArray(ranges.map((range) => range.jobType)),
    int2Array(ranges.map((range) => range.priority)),
    int8Array(ranges.map((range) => range.floor)),
    runs,
    ranksOf(ranges),
  ];
}
