import { type Queryable, run, statement } from '../driver/statement.ts';
import {
  type Claimed,
  type ClaimOrder,
  type ClaimParams,
  CORRELATION,
  IN_LINE,
  IN_TURN,
  parametersOf,
  type QueueTurnParams,
  queueTurnParametersOf,
  type StartedJob,
  startedText,
  type TurnParams,
  takenOf,
  turnParametersOf,
  WITHIN_QUEUES,
} from './claim-and-start.ts';
import { IS_STILL_THERE } from './claim-text.ts';

/** A leased job that has not started: `attemptsStarted` does not include the next attempt. */
export type ClaimedJob = StartedJob;

const MAY_START_LATE = 'j.attempts_started = 0 AND j.max_attempts > 1';

/**
 * Whether a job that was leased ahead may run before its start is written. If its worker dies before that, the attempt counts as
 * started and the job gets another one. A job that must not run again, or that already lost an attempt this way, is started first.
 */
export const mayStartLate = (job: Pick<ClaimedJob, 'attemptsStarted' | 'maxAttempts'>): boolean =>
  job.attemptsStarted === 0 && job.maxAttempts > 1;

// A lease is not a state: the row stays scheduled, and no event is written before the attempt starts. A lease needs no flush of the log
// either. If a crash of the server loses it, its start is refused and the job is still in the queue. A start that survives keeps its
// claim, because the claim precedes it in the log. The parameters are those of `claim-and-start.ts`.
const UNFLUSHED = `unflushed AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true))`;
const CLAIMED_AT = 'greatest(millrace.clock(), j.scheduled_at)';

// A job that is leased ahead may run before its start is written, so its lease is flushed like a start. Its row is scheduled, with a
// worker and without `claimed_at`. Only the first of several attempts runs that way. Every other job is started separately and has
// `claimed_at`.
const AHEAD = {
  before: '',
  claimedAt: `CASE WHEN ${MAY_START_LATE} THEN NULL ELSE ${CLAIMED_AT} END`,
  from: 'claimed',
};
const APART = { before: `${UNFLUSHED}, `, claimedAt: CLAIMED_AT, from: 'claimed CROSS JOIN unflushed' };

function claimText({ leased, columns, note }: ClaimOrder, { before, claimedAt, from }: typeof APART): string {
  return `
WITH ${before}${leased}
, claimed AS (
  UPDATE millrace.jobs j SET worker_id = $1::int8, lease_seq = l.lease_seq, claimed_at = ${claimedAt}
  FROM leased l WHERE j.org_id = l.org_id AND j.seq = l.seq AND ${IS_STILL_THERE}
  RETURNING j.org_id, j.seq, j.id, j.lease_seq, j.started_lease_seq, j.job_type, j.queue, j.priority, l.order_key,
    j.attempts_started, j.max_attempts, j.policy_id, j.created_at, j.lifetime_deadline, j.payload, j.payload_bytes,
    j.idempotency_key, ${CORRELATION}, j.traceparent, j.tags, j.project_id, j.limit_id, j.planned_at,
    j.category, j.request_id, j.actor, j.permanent_failures
), noted AS (
  INSERT INTO millrace.claims (worker_id, claim_no, org_id, job_type, seqs)
  SELECT $1::int8, $3::int8, org_id, job_type, array_agg(seq) FROM claimed GROUP BY org_id, job_type
)
SELECT ${startedText('started_lease_seq')}${columns} FROM ${from}
${note('claimed')}`;
}

const CLAIM = statement('claim_jobs', claimText(IN_LINE, APART));
const LEASE_AHEAD = statement('lease_ahead', claimText(IN_LINE, AHEAD));
const CLAIM_IN_TURN = statement('claim_jobs_in_turn', claimText(IN_TURN, APART));
const CLAIM_WITHIN_QUEUES = statement('claim_jobs_within_queues', claimText(WITHIN_QUEUES, APART));
const LEASE_AHEAD_IN_TURN = statement('lease_ahead_in_turn', claimText(IN_TURN, AHEAD));

/** Leases at most `limit` ready jobs to a worker, in claim order, without starting them. */
export async function claimJobs(db: Queryable, params: ClaimParams): Promise<Claimed> {
  return takenOf(await run<ClaimedJob>(db, CLAIM, parametersOf(params)));
}

/** Like `claimJobs`, but orgs take turns, and caps apply. */
export async function claimJobsInTurn(db: Queryable, params: TurnParams): Promise<Claimed> {
  return takenOf(await run<ClaimedJob>(db, CLAIM_IN_TURN, turnParametersOf(params)));
}

/** Like `claimJobsInTurn`, within what the caps and rates of queues leave. */
export async function claimJobsWithinQueues(db: Queryable, params: QueueTurnParams): Promise<Claimed> {
  return takenOf(await run<ClaimedJob>(db, CLAIM_WITHIN_QUEUES, queueTurnParametersOf(params)));
}

/** Like `claimJobs`, but for jobs that may run before their start is written: see `mayStartLate`. */
export async function leaseAhead(db: Queryable, params: ClaimParams): Promise<Claimed> {
  return takenOf(await run<ClaimedJob>(db, LEASE_AHEAD, parametersOf(params)));
}

/** Like `leaseAhead`, but orgs take turns. */
export async function leaseAheadInTurn(db: Queryable, params: TurnParams): Promise<Claimed> {
  return takenOf(await run<ClaimedJob>(db, LEASE_AHEAD_IN_TURN, turnParametersOf(params)));
}
