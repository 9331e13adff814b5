import { int8Array, textArray, uuidArray } from '../driver/binary-array.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';
import type { JobToWrite } from './job-to-write.ts';

// The order of a fair queue: the stamp of an org's next job is one higher than its last, but not below the stamps that were claimed. So
// orgs take turns, and an idle org does not save up turns. A fifo queue orders by submission.
//
// The row of an org is locked until the transaction ends, and every submission of the org to the queue needs it. So stamps are reserved
// by a statement that commits immediately, never inside a longer transaction. A rollback of the jobs leaves a gap. The commit needs no
// flush: the log is flushed in order, so a job that survives a crash has its stamp before it.
const RESERVE = statement(
  'reserve_stamps',
  `INSERT INTO millrace.fair_stamps AS f (queue, org_id, stamp)
   SELECT w.queue, w.org_id, q.virtual_time + w.jobs FROM unnest($1::text[], $2::uuid[], $3::int8[]) AS w(queue, org_id, jobs)
   JOIN millrace.queues q ON q.name = w.queue AND q.claim_order = 'fair'
   WHERE (SELECT set_config('synchronous_commit', 'off', true)) IS NOT NULL
   ORDER BY 1, 2
   ON CONFLICT (queue, org_id) DO UPDATE SET stamp = greatest(f.stamp + excluded.stamp
     - (SELECT q.virtual_time FROM millrace.queues q WHERE q.name = f.queue), excluded.stamp)
   RETURNING queue, org_id, stamp`,
);

type Row = { queue: string; org_id: string; stamp: number };

/** Assigns stamps to jobs of fair queues. `db` must be ours, and outside a transaction. */
export async function reserveStamps(db: Queryable, jobs: readonly JobToWrite[]): Promise<void> {
  const groups = Map.groupBy(
    jobs.filter(({ stamp }) => stamp === undefined),
    ({ orgId, job }) => `${orgId} ${job.queue}`,
  );
  if (groups.size === 0) return;
  const firsts = [...groups.values()].map((group) => group[0] as JobToWrite);
  const rows = await run<Row>(db, RESERVE, [
    textArray(firsts.map(({ job }) => job.queue)),
    uuidArray(firsts.map(({ orgId }) => orgId)),
    int8Array([...groups.values()].map((group) => group.length)),
  ]);
  for (const { queue, org_id, stamp } of rows) {
    const group = groups.get(`${org_id} ${queue}`) ?? [];
    for (const [index, entry] of group.entries()) entry.stamp = Number(stamp) - group.length + 1 + index;
  }
}
