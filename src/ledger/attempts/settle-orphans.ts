import { type Queryable, run, statement } from '../driver/statement.ts';
import { IS_SILENT, lockedWorkerText, type RescueParams } from './return-jobs.ts';
import { type Settled, type SettledJob, type SettledRow, settledOf, settleText, settleValues } from './settle-jobs.ts';
import { type Lease, MAY_RUN, startArrays, startText } from './start-jobs.ts';

// Skips jobs that a transaction holds, such as one that called `assertOwned`. They are settled in a later round and do not delay the
// others.
const SETTLE_ORPHANS = statement(
  'settle_orphans',
  settleText({
    actor: 'rescuer',
    before: [lockedWorkerText('$14')],
    condition: `AND ${IS_SILENT}`,
    lock: 'FOR NO KEY UPDATE OF j SKIP LOCKED',
  }),
);

// Only the dead worker knew whether the handler was called. The history says that it was, and marks this as presumed, so that no
// attempt number is used twice.
const PRESUME = statement(
  'presume_started',
  startText({
    before: [
      lockedWorkerText('$6'),
      `free AS MATERIALIZED (
  SELECT j.org_id, j.seq FROM unnest($2::uuid[], $3::int8[], $4::int8[]) AS i(org_id, seq, lease_seq)
  JOIN millrace.jobs j ON j.org_id = i.org_id AND j.seq = i.seq AND j.lease_seq = i.lease_seq
  WHERE ${MAY_RUN} AND j.worker_id = $1::int8 AND ${IS_SILENT} FOR NO KEY UPDATE OF j SKIP LOCKED
)`,
    ],
    condition: `AND ${MAY_RUN} AND EXISTS (SELECT FROM free f WHERE f.org_id = j.org_id AND f.seq = j.seq)`,
    detail: `json_build_object('presumed', true)`,
  }),
);

/**
 * Starts the attempts that a worker may have begun before it stopped or fell silent, unless it sent a beat since. Jobs that another
 * transaction has locked are left for a later round.
 */
export async function presumeStarted(
  db: Queryable,
  { workerId, beat, jobs }: RescueParams & { jobs: readonly Lease[] },
): Promise<{ presumed: Set<number> }> {
  const rows = await run<{ leaseSeq: number }>(db, PRESUME, [workerId, ...startArrays(jobs), beat]);
  return { presumed: new Set(rows.map(({ leaseSeq }) => leaseSeq)) };
}

/** Ends the attempts of a worker that stopped or fell silent, unless it sent a beat since the rescuer looked. */
export async function settleOrphans(
  db: Queryable,
  { workerId, beat, jobs }: RescueParams & { jobs: readonly SettledJob[] },
): Promise<Settled> {
  const values = settleValues({ workerId, jobs, closedClaims: [] });
  const [row] = await run<SettledRow>(db, SETTLE_ORPHANS, [...values, beat]);
  return settledOf(row);
}
