import { textArray, uuidArray } from '../driver/binary-array.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';
import type { Caps } from './claim-and-start.ts';
import { LEASED } from './owned-jobs.ts';

// Claims under a cap run one at a time. They first lock the rows that contain the caps, types before orgs, each in order.
const LOCK = statement(
  'lock_claim_room',
  `WITH types AS (
     SELECT name, concurrency FROM millrace.job_types WHERE concurrency IS NOT NULL AND name = ANY ($1::text[])
     ORDER BY name FOR UPDATE
   ), orgs AS (
     SELECT id, max_running FROM millrace.orgs WHERE max_running IS NOT NULL ORDER BY id FOR UPDATE
   )
   SELECT name AS job_type, NULL::uuid AS org_id, concurrency AS cap FROM types
   UNION ALL SELECT NULL, id, max_running FROM orgs`,
);

// A second statement, so that its snapshot is taken after the locks and includes the claim before this one. It counts live leases,
// because a separate counter could drift. A job may be in two claims of one worker, hence DISTINCT.
const COUNT = statement(
  'count_claim_room',
  `SELECT c.job_type, NULL::uuid AS org_id, count(DISTINCT j.seq)::int4 AS live
   FROM ${LEASED} WHERE c.job_type = ANY ($1::text[]) GROUP BY c.job_type
   UNION ALL
   SELECT NULL, c.org_id, count(DISTINCT j.seq)::int4
   FROM ${LEASED} WHERE c.org_id = ANY ($2::uuid[]) GROUP BY c.org_id`,
);

type Cap = { job_type: string | null; org_id: string | null; cap: number };
type Live = { job_type: string | null; org_id: string | null; live: number };

/** Must run inside a transaction. The result stays true until the transaction ends. */
export async function lockRoom(client: Queryable, types: readonly string[]): Promise<Caps> {
  const caps = await run<Cap>(client, LOCK, [textArray(types)]);
  const typeRoom = new Map<string, number>();
  const orgRoom = new Map<string, number>();
  for (const { job_type, org_id, cap } of caps) {
    if (job_type !== null) typeRoom.set(job_type, cap);
    if (org_id !== null) orgRoom.set(org_id, cap);
  }
  if (caps.length > 0) {
    const counts = await run<Live>(client, COUNT, [textArray([...typeRoom.keys()]), uuidArray([...orgRoom.keys()])]);
    for (const { job_type, org_id, live } of counts) {
      if (job_type !== null) typeRoom.set(job_type, (typeRoom.get(job_type) ?? 0) - live);
      if (org_id !== null) orgRoom.set(org_id, (orgRoom.get(org_id) ?? 0) - live);
    }
  }
  return { types: typeRoom, orgs: orgRoom };
}
