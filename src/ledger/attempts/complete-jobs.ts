import { float4Array, int8Array, jsonArray, uuidArray } from '../driver/binary-array.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';
import { countedText, RECORD, recordedText, tookText } from '../history/record-events.ts';
import { closedText, releasedText } from '../tokens.ts';
import { MAY_RUN, startedAtText } from './start-jobs.ts';

/** A job whose handler returned. The result is JSON text. */
type FinishedJob = { orgId: string; seq: number; leaseSeq: number; result: string | null };

/** A job whose start was not written. Its handler was called `agoMs` ago and ran for `ranMs`. */
export type LateJob = FinishedJob & { agoMs: number; ranMs: number };

type Params<Job> = {
  workerId: number;
  finished: readonly Job[];
  /** Claims whose jobs have all ended. */
  closedClaims: readonly number[];
};

export type CompleteParams = Params<FinishedJob>;

/** The difference between jobs that were started and jobs whose start is written together with their end. */
type Variant = {
  input: string;
  /** In addition to the lease. */
  condition: string;
  start: string;
  events: 1 | 2;
  /** Columns of the updated row, for the history. */
  took: string;
  recordedStart: string;
};

const PLAIN: Variant = {
  input: '$2::uuid[], $3::int8[], $4::int8[], $5::json[]) AS f(org_id, seq, lease_seq, result',
  condition: `j.state = 'running'`,
  start: '',
  events: 1,
  took: `${tookText('j.started_at')} AS took_ms`,
  recordedStart: '',
};

// A record has one time for all starts of a statement. It is the latest of them, so that no job seems to start before it was ready.
const LATE: Variant = {
  input: '$2::uuid[], $3::int8[], $4::int8[], $5::json[], $7::float4[], $8::float4[]) AS f(org_id, seq, lease_seq, result, ago_ms, ran_ms',
  condition: MAY_RUN,
  start: `${startedAtText(`greatest(millrace.clock() - f.ago_ms * interval '1 ms', j.scheduled_at)`)}, `,
  events: 2,
  took: `f.ran_ms AS took_ms, j.started_at, ${tookText('j.scheduled_at', 'j.started_at')} AS waited_ms`,
  recordedStart: `, recorded_start AS (
  ${recordedText({
    source: 'done',
    from: `'scheduled'`,
    to: `'running'`,
    reason: `'started'`,
    at: 'max(started_at)',
    n: 'event_count - 1',
    workerId: '$1::int8',
    tookMs: 'waited_ms',
  })}
)`,
};

const isOursText = ({ condition }: Variant): string =>
  `j.org_id = f.org_id AND j.seq = f.seq AND j.lease_seq = f.lease_seq AND ${condition} AND j.worker_id = $1::int8`;

// The plain statement locks rows as it updates them, so it waits for a lock that a handler's transaction may hold. Its session has a
// short lock timeout. A batch that meets a lock is sent again by the second statement, which skips locked rows and returns their
// leases. Locking rows first costs a second write of each row's header, so it is the exception.
const lockingText = (isOurs: string): string => `, free AS MATERIALIZED (
  SELECT f.* FROM finished f JOIN millrace.jobs j ON ${isOurs} ORDER BY j.seq FOR NO KEY UPDATE OF j SKIP LOCKED
), held AS MATERIALIZED (
  SELECT f.lease_seq FROM finished f JOIN millrace.jobs j ON ${isOurs}
  WHERE NOT EXISTS (SELECT FROM free WHERE free.lease_seq = f.lease_seq)
)`;

// The hot path out, for plain successes. `settle-jobs.ts` writes every other end of an attempt.
function completeText(variant: Variant, { skipsLocked }: { skipsLocked: boolean }): string {
  const isOurs = isOursText(variant);
  return `WITH ${RECORD}, finished AS MATERIALIZED (
  SELECT * FROM unnest(${variant.input})
)${skipsLocked ? lockingText(isOurs) : ''}, done AS (
  UPDATE millrace.jobs j SET state = 'completed', result = f.result, ${variant.start}completed_at = millrace.clock(),
    updated_at = millrace.clock(), worker_id = NULL, ${countedText('j', variant.events)}
  FROM ${skipsLocked ? 'free' : 'finished'} f WHERE ${isOurs}
  RETURNING j.org_id, j.seq, j.job_type, j.priority, j.lease_seq, j.event_count, j.attempts_started, j.round, ${variant.took},
    j.has_dependents OR j.joins_parent AS is_awaited
), ${releasedText('done')}, ${closedText('$6')}${variant.recordedStart}, recorded AS (
  ${recordedText({
    source: 'done',
    from: `'running'`,
    to: `'completed'`,
    reason: `'succeeded'`,
    workerId: '$1::int8',
    tookMs: 'took_ms',
  })}
)
SELECT string_agg(lease_seq::text, ',') AS landed, coalesce(bool_or(is_awaited), false) AS released,
  ${skipsLocked ? `(SELECT string_agg(lease_seq::text, ',') FROM held)` : 'NULL'} AS held FROM done`;
}

const COMPLETE = statement('complete_jobs', completeText(PLAIN, { skipsLocked: false }));
const COMPLETE_UNLOCKED = statement('complete_unlocked_jobs', completeText(PLAIN, { skipsLocked: true }));
const COMPLETE_LATE = statement('complete_late_jobs', completeText(LATE, { skipsLocked: false }));
const COMPLETE_LATE_UNLOCKED = statement('complete_unlocked_late_jobs', completeText(LATE, { skipsLocked: true }));

export type Completed = {
  /** Leases that ended here. A worker has lost each lease that is neither here nor in `held`. */
  landed: Set<number>;
  /** Leases whose job another transaction holds. Nothing was written for them. */
  held: Set<number>;
  released: boolean;
};

type Row = { landed: string | null; released: boolean; held: string | null };
type Options = { skipsLocked?: boolean };

/**
 * Completes jobs, each by its lease. With `skipsLocked` it does not wait for row locks; without, it throws if a lock lasts too long.
 */
export async function completeJobs(db: Queryable, params: CompleteParams, { skipsLocked = false }: Options = {}): Promise<Completed> {
  const text = skipsLocked ? COMPLETE_UNLOCKED : COMPLETE;
  return completedOf(await run<Row>(db, text, valuesOf(params), { maxTries: 1 }));
}

/** Like `completeJobs`, but for jobs whose start was not written. It writes the start and the end, with the time at which each handler was called. */
export async function completeLateJobs(db: Queryable, params: Params<LateJob>, { skipsLocked = false }: Options = {}): Promise<Completed> {
  const text = skipsLocked ? COMPLETE_LATE_UNLOCKED : COMPLETE_LATE;
  const { finished } = params;
  const times = [float4Array(finished.map((job) => job.agoMs)), float4Array(finished.map((job) => job.ranMs))];
  return completedOf(await run<Row>(db, text, [...valuesOf(params), ...times], { maxTries: 1 }));
}

const valuesOf = ({ workerId, finished, closedClaims }: CompleteParams): unknown[] => [
  workerId,
  uuidArray(finished.map((job) => job.orgId)),
  int8Array(finished.map((job) => job.seq)),
  int8Array(finished.map((job) => job.leaseSeq)),
  jsonArray(finished.map((job) => job.result)),
  int8Array(closedClaims),
];

const completedOf = ([row]: readonly Row[]): Completed => ({
  landed: leasesIn(row?.landed),
  held: leasesIn(row?.held),
  released: row?.released === true,
});

/** Parses a list of lease numbers that a statement returned. */
export const leasesIn = (list: string | null | undefined): Set<number> => new Set(list == null ? [] : list.split(',').map(Number));
