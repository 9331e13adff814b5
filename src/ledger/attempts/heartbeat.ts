import { int8Array, uuidArray } from '../driver/binary-array.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';

// One statement for a worker and all its jobs. The beat renews every lease, so no row of a job is written.
const HEARTBEAT = statement(
  'heartbeat',
  `WITH beat AS (
     UPDATE millrace.workers SET beat_at = millrace.clock(), beat_ms = coalesce($5::int4, beat_ms),
       stalled_at = CASE WHEN $6::float8 IS NOT NULL THEN coalesce(stalled_at, millrace.clock() - $6::float8 * interval '1 ms') END
     WHERE id = $1::int8 AND stopped_at IS NULL RETURNING id
   ), held AS MATERIALIZED (
     SELECT h.lease_seq, j.seq IS NOT NULL AS is_owned, c.is_forced
     FROM unnest($2::uuid[], $3::int8[], $4::int8[]) AS h(org_id, seq, lease_seq)
     LEFT JOIN millrace.jobs j ON j.org_id = h.org_id AND j.seq = h.seq AND j.lease_seq = h.lease_seq
       AND j.worker_id = $1::int8 AND j.state IN ('scheduled', 'running')
     LEFT JOIN millrace.cancel_requests c ON c.org_id = j.org_id AND c.seq = j.seq
   )
   SELECT EXISTS (SELECT FROM beat) AS alive, NULL::int8 AS lease_seq, true AS is_owned, NULL::boolean AS is_forced
   UNION ALL
   SELECT NULL, lease_seq, is_owned, is_forced FROM held WHERE NOT is_owned OR is_forced IS NOT NULL`,
);

type Row = { alive: boolean | null; lease_seq: number; is_owned: boolean; is_forced: boolean | null };

type HeldJob = { orgId: string; seq: number; leaseSeq: number };

export type HeartbeatParams = {
  workerId: number;
  jobs: readonly HeldJob[];
  /** The longest pause before the next beat. */
  beatMs?: number;
  /** How long the event loop of the worker's process has been blocked. Without it, the loop runs. */
  stalledMs?: number;
};

/** `alive` is false if the worker was stopped or is unknown. `lost` and `cancels` contain leases. */
export type Heartbeat = { alive: boolean; lost: number[]; cancels: { leaseSeq: number; force: boolean }[] };

export async function heartbeat(db: Queryable, { workerId, jobs, beatMs, stalledMs }: HeartbeatParams): Promise<Heartbeat> {
  const [header, ...rows] = await run<Row>(db, HEARTBEAT, [
    workerId,
    uuidArray(jobs.map((job) => job.orgId)),
    int8Array(jobs.map((job) => job.seq)),
    int8Array(jobs.map((job) => job.leaseSeq)),
    beatMs ?? null,
    stalledMs ?? null,
  ]);
  const beat: Heartbeat = { alive: header?.alive === true, lost: [], cancels: [] };
  for (const row of rows) {
    if (row.is_owned) beat.cancels.push({ leaseSeq: row.lease_seq, force: row.is_forced === true });
    else beat.lost.push(row.lease_seq);
  }
  return beat;
}
