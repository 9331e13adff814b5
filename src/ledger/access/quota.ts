import { int4Array, uuidArray } from '../driver/binary-array.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';

// Refused requests count too, and the returned earlier use shows each caller whether its requests still fit. A statement that began before
// midnight, and waited for one that began after it, counts in the new day.
const USE = statement(
  'use_quota',
  `INSERT INTO millrace.quota_uses AS q (org_id, day_no, used)
   SELECT o.id, floor(extract(epoch FROM millrace.clock()) / 86400)::int8, a.wanted
   FROM unnest($1::uuid[], $2::int4[]) AS a (org_id, wanted) JOIN millrace.orgs o ON o.id = a.org_id
   ORDER BY o.id
   ON CONFLICT (org_id) DO UPDATE SET
     used = CASE WHEN q.day_no IN (excluded.day_no, excluded.day_no + 1)
       THEN least(q.used::int8 + excluded.used, 2147483647)::int4 ELSE excluded.used END,
     day_no = CASE WHEN q.day_no = excluded.day_no + 1 THEN q.day_no ELSE excluded.day_no END
   RETURNING org_id AS "orgId", used, ((day_no + 1) * 86400 - extract(epoch FROM millrace.clock()))::float8 * 1000 AS "endsInMs"`,
);

export type QuotaUse = {
  orgId: string;
  /** The use of this UTC day over all processes, including these requests. */
  used: number;
  endsInMs: number;
};

/** Counts requests of orgs, each org once. An org that does not exist is missing from the result. */
export async function useQuota(db: Queryable, uses: readonly { orgId: string; wanted: number }[]): Promise<QuotaUse[]> {
  return run<QuotaUse>(db, USE, [uuidArray(uses.map(({ orgId }) => orgId)), int4Array(uses.map(({ wanted }) => wanted))]);
}
