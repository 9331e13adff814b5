import { int8Array, uuidArray } from './binary-array.ts';
import { countedText, RECORD, recordedText, tookText } from './record-events.ts';
import { type Queryable, run, statement } from './statement.ts';

export type Lease = { orgId: string; seq: number; leaseSeq: number };

const START = statement(
  'start_jobs',
  `WITH ${RECORD}, input AS MATERIALIZED (
  SELECT * FROM unnest($2::uuid[], $3::int8[], $4::int8[]) AS i(org_id, seq, lease_seq)
), started AS (
  UPDATE millrace.jobs j SET state = 'running', previous_lease_seq = j.started_lease_seq, started_lease_seq = j.lease_seq,
    started_at = millrace.clock(), updated_at = millrace.clock(), attempts_started = j.attempts_started + 1,
    ${countedText()}
  FROM input i
  WHERE j.org_id = i.org_id AND j.seq = i.seq AND j.lease_seq = i.lease_seq AND j.state = 'scheduled' AND j.worker_id = $1::int8
  RETURNING j.org_id, j.seq, j.job_type, j.priority, j.lease_seq, j.event_count, j.attempts_started, j.round,
    ${tookText('j.scheduled_at')} AS took_ms
), recorded AS (
  ${recordedText({
    ...{ source: 'started', from: `'scheduled'`, to: `'running'`, reason: `'started'` },
    ...{ workerId: '$1::int8', tookMs: 'took_ms' },
  })}
)
SELECT lease_seq, attempts_started FROM started`,
);

/** Leases in the order of the jobs, so that statements over many jobs never wait for each other in a ring. */
export function leaseArrays(leases: readonly Lease[]): [Buffer, Buffer, Buffer] {
  const sorted = leases.toSorted((a, b) => a.seq - b.seq);
  return [
    uuidArray(sorted.map((lease) => lease.orgId)),
    int8Array(sorted.map((lease) => lease.seq)),
    int8Array(sorted.map((lease) => lease.leaseSeq)),
  ];
}

/** Starts an attempt for each lease that still stands; a lease that is gone is absent from the answer. */
export async function startJobs(
  db: Queryable,
  { workerId, jobs }: { workerId: number; jobs: readonly Lease[] },
): Promise<{ started: Map<number, number> }> {
  const rows = await run<{ lease_seq: number; attempts_started: number }>(db, START, [workerId, ...leaseArrays(jobs)]);
  return { started: new Map(rows.map((row) => [row.lease_seq, row.attempts_started])) };
}
