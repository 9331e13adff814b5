import { int4Array, uuidArray } from '../driver/binary-array.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';

// A statement that began in the last minute, and waited for one that began in the new minute, gets nothing and keeps the newer window.
// Going back would grant the permits of the new minute twice. A row that is further ahead comes from a clock that was wrong.
const LEASE = statement(
  'lease_permits',
  `INSERT INTO millrace.rate_leases AS r (org_id, window_no, maximum, leased, granted)
   SELECT o.id, floor(extract(epoch FROM millrace.clock()) / 60)::int8, m.maximum, least(a.wanted, m.maximum),
     least(a.wanted, m.maximum)
   FROM unnest($1::uuid[], $2::int4[]) AS a (org_id, wanted)
   JOIN millrace.orgs o ON o.id = a.org_id
   CROSS JOIN LATERAL (SELECT coalesce(o.requests_per_minute, $3::int4) AS maximum) m
   ORDER BY o.id
   ON CONFLICT (org_id) DO UPDATE SET
     maximum = excluded.maximum,
     window_no = CASE WHEN r.window_no = excluded.window_no + 1 THEN r.window_no ELSE excluded.window_no END,
     granted = CASE r.window_no WHEN excluded.window_no + 1 THEN 0
       WHEN excluded.window_no THEN greatest(0, least(excluded.granted, excluded.maximum - r.leased))
       ELSE excluded.granted END,
     leased = CASE r.window_no WHEN excluded.window_no + 1 THEN r.leased
       WHEN excluded.window_no THEN r.leased + greatest(0, least(excluded.granted, excluded.maximum - r.leased))
       ELSE excluded.granted END
   RETURNING org_id AS "orgId", granted, leased, maximum,
     ((window_no + 1) * 60 - extract(epoch FROM millrace.clock()))::float8 * 1000 AS "endsInMs"`,
);

export type WantedPermits = { orgId: string; wanted: number };

/** `granted` requests may pass until the window ends, `endsInMs` after the start of the statement. */
export type RateLease = {
  orgId: string;
  granted: number;
  /** Over all processes, including this grant. */
  leased: number;
  maximum: number;
  endsInMs: number;
};

/**
 * Takes permits of the current minute for orgs, each org once. The permits granted to all callers in one minute never exceed the org's
 * maximum. An org that does not exist is missing from the result.
 */
export async function leasePermits(db: Queryable, wants: readonly WantedPermits[], defaultMaximum: number): Promise<RateLease[]> {
  return run<RateLease>(db, LEASE, [
    uuidArray(wants.map(({ orgId }) => orgId)),
    int4Array(wants.map(({ wanted }) => wanted)),
    defaultMaximum,
  ]);
}
