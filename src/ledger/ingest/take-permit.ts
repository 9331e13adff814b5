import { type Queryable, run, statement } from '../driver/statement.ts';

const TAKE = statement(
  'take_ingest_permit',
  `INSERT INTO millrace.ingest_rates AS r (org_id, window_no, used)
   VALUES ($1::uuid, floor(extract(epoch FROM millrace.clock()) / 60)::int8, 1)
   ON CONFLICT (org_id) DO UPDATE SET window_no = excluded.window_no, used = CASE WHEN r.window_no = excluded.window_no THEN r.used + 1 ELSE 1 END
   RETURNING used, ((window_no + 1) * 60 - extract(epoch FROM millrace.clock()))::float8 * 1000 AS "endsInMs"`,
);

/** Counts a request of the org in the current minute, over all processes. */
export async function takePermit(db: Queryable, orgId: string): Promise<{ used: number; endsInMs: number }> {
  return (await run<{ used: number; endsInMs: number }>(db, TAKE, [orgId]))[0] as { used: number; endsInMs: number };
}
