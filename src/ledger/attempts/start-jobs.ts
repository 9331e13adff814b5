import { float4Array, int8Array, uuidArray } from '../driver/binary-array.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';
import { countedText, RECORD, recordedText, tookText } from '../history/record-events.ts';

export type Lease = { orgId: string; seq: number; leaseSeq: number };

/** An attempt that started. The job was leased for `assignedMs` before. */
export type StartedAttempt = { leaseSeq: number; attemptsStarted: number; assignedMs: number };

/** A lease to start. Its handler has already run for `ranMs`. */
export type LeaseToStart = Lease & { ranMs?: number };

export type StartParams = { workerId: number; jobs: readonly LeaseToStart[] };

const ASSIGNED_MS = tookText('j.claimed_at', 'j.started_at');

/** A leased job that may run before its start is written: see `claim-jobs.ts`. */
export const MAY_RUN = `j.state = 'scheduled' AND j.worker_id IS NOT NULL AND j.claimed_at IS NULL`;

/** The columns of a job that the start of an attempt sets. */
export const startedAtText = (startedAt: string): string => `previous_lease_seq = j.started_lease_seq, started_lease_seq = j.lease_seq,
    started_at = ${startedAt}, attempts_started = j.attempts_started + 1`;

/** The difference between a worker that starts its jobs and a rescuer that presumes the start of a dead worker's job. */
export type StartVariant = {
  /** The first CTEs, and an additional condition on job `j`. */
  before: readonly string[];
  condition: string;
  detail: string;
};

export const startText = ({ before, condition, detail }: StartVariant): string =>
  `WITH ${[RECORD, ...before].join(', ')}, input AS MATERIALIZED (
  SELECT * FROM unnest($2::uuid[], $3::int8[], $4::int8[], $5::float4[]) AS i(org_id, seq, lease_seq, ran_ms)
), started AS (
  UPDATE millrace.jobs j SET state = 'running', ${startedAtText(
    `greatest(millrace.clock() - i.ran_ms * interval '1 ms', j.claimed_at, j.scheduled_at)`,
  )}, updated_at = millrace.clock(), ${countedText()}
  FROM input i
  WHERE j.org_id = i.org_id AND j.seq = i.seq AND j.lease_seq = i.lease_seq AND j.state = 'scheduled' AND j.worker_id = $1::int8
    ${condition}
  RETURNING j.org_id, j.seq, j.job_type, j.priority, j.lease_seq, j.event_count, j.attempts_started, j.round, j.started_at,
    ${tookText('j.scheduled_at', 'j.started_at')} AS took_ms, ${ASSIGNED_MS} AS assigned_ms,
    ${detail} AS detail
), recorded AS (
  ${recordedText({
    source: 'started',
    from: `'scheduled'`,
    to: `'running'`,
    reason: `'started'`,
    at: 'max(started_at)',
    workerId: '$1::int8',
    tookMs: 'took_ms',
    detail: 'detail',
  })}
)
SELECT lease_seq AS "leaseSeq", attempts_started AS "attemptsStarted", assigned_ms AS "assignedMs" FROM started`;

const DETAIL = `CASE WHEN j.claimed_at IS NOT NULL THEN json_build_object('assignedMs', ${ASSIGNED_MS}) END`;

const START = statement('start_jobs', startText({ before: [], condition: '', detail: DETAIL }));

const LEASED = `FROM unnest($2::uuid[], $3::int8[], $4::int8[]) AS i(org_id, seq, lease_seq)
  JOIN millrace.jobs j ON j.org_id = i.org_id AND j.seq = i.seq AND j.lease_seq = i.lease_seq
  WHERE j.state = 'scheduled' AND j.worker_id = $1::int8`;

const START_FREE = statement(
  'start_free_jobs',
  startText({
    before: [`free AS MATERIALIZED (SELECT j.org_id, j.seq ${LEASED} ORDER BY j.seq FOR NO KEY UPDATE OF j SKIP LOCKED)`],
    condition: 'AND EXISTS (SELECT FROM free f WHERE f.org_id = j.org_id AND f.seq = j.seq)',
    detail: DETAIL,
  }),
);

const UNSTARTED = statement('unstarted_jobs', `SELECT j.lease_seq AS "leaseSeq" ${LEASED}`);

// A separate statement, whose snapshot includes everything that the statement before it waited for.
const STARTED = statement(
  'started_jobs',
  `SELECT j.lease_seq AS "leaseSeq", j.attempts_started AS "attemptsStarted", ${ASSIGNED_MS} AS "assignedMs"
   FROM unnest($2::uuid[], $3::int8[], $4::int8[]) AS i(org_id, seq, lease_seq)
   JOIN millrace.jobs j ON j.org_id = i.org_id AND j.seq = i.seq AND j.lease_seq = i.lease_seq
   WHERE j.state = 'running' AND j.worker_id = $1::int8`,
);

/** Sorts leases by job, so that statements over many jobs cannot deadlock. */
export function leaseArrays(leases: readonly Lease[]): [Buffer, Buffer, Buffer] {
  const sorted = leases.toSorted((a, b) => a.seq - b.seq);
  return [
    uuidArray(sorted.map((lease) => lease.orgId)),
    int8Array(sorted.map((lease) => lease.seq)),
    int8Array(sorted.map((lease) => lease.leaseSeq)),
  ];
}

/** Like `leaseArrays`, with the time that each handler has already run. */
export function startArrays(leases: readonly LeaseToStart[]): Buffer[] {
  const sorted = leases.toSorted((a, b) => a.seq - b.seq);
  return [...leaseArrays(sorted), float4Array(sorted.map(({ ranMs = 0 }) => ranMs))];
}

export type Started = { started: Map<number, StartedAttempt> };

/** Starts an attempt for each lease that is still valid. Other leases are absent from the result. */
export async function startJobs(db: Queryable, { workerId, jobs }: StartParams): Promise<Started> {
  return byLease(await run<StartedAttempt>(db, START, [workerId, ...startArrays(jobs)]));
}

/** Like `startJobs`, but does not wait for row locks. A job that another transaction holds is absent, and `unstartedOf` finds it. */
export async function startFreeJobs(db: Queryable, { workerId, jobs }: StartParams): Promise<Started> {
  return byLease(await run<StartedAttempt>(db, START_FREE, [workerId, ...startArrays(jobs)]));
}

/** Returns the leases that are still valid and have not started. */
export async function unstartedOf(db: Queryable, { workerId, jobs }: StartParams): Promise<Set<number>> {
  const rows = await run<{ leaseSeq: number }>(db, UNSTARTED, [workerId, ...leaseArrays(jobs)]);
  return new Set(rows.map(({ leaseSeq }) => leaseSeq));
}

/** Returns the attempts that started under these leases and still run, for a caller that never received the result of a start. */
export async function startedBefore(db: Queryable, { workerId, jobs }: StartParams): Promise<Started> {
  return byLease(await run<StartedAttempt>(db, STARTED, [workerId, ...leaseArrays(jobs)]));
}

const byLease = (attempts: readonly StartedAttempt[]): Started => ({
  started: new Map(attempts.map((attempt) => [attempt.leaseSeq, attempt])),
});
