import { type Queryable, run, statement } from '../driver/statement.ts';

// The rollups of single seconds, of all orgs. The rollup writer needs about a second, so the newest second is left out.
const RATES = statement(
  'recent_rates',
  `SELECT r.job_type AS "type", sum(r.submitted)::float8 / $1::float8 AS submitted, sum(r.completed)::float8 / $1::float8 AS completed,
     sum(r.failed + r.dead_letter)::float8 / $1::float8 AS failed, sum(r.retried)::float8 / $1::float8 AS retried
   FROM millrace.rollups r
   WHERE r.width = 1 AND r.started_at >= date_trunc('second', millrace.clock()) - ($1::float8 + 2) * interval '1 second'
     AND r.started_at < date_trunc('second', millrace.clock()) - interval '2 seconds' AND ($2::uuid IS NULL OR r.org_id = $2::uuid)
   GROUP BY r.job_type ORDER BY sum(r.submitted + r.completed + r.failed + r.dead_letter + r.retried) DESC, r.job_type LIMIT 1000`,
);

/** Jobs of a type per second. */
export type TypeRates = { type: string; submitted: number; completed: number; failed: number; retried: number };

/** Returns what happened per second in the last seconds, by type, the busiest first. It lags two seconds behind. */
export const recentRates = (db: Queryable, { seconds, orgId }: { seconds: number; orgId: string | null }): Promise<TypeRates[]> =>
  run<TypeRates>(db, RATES, [seconds, orgId]);

const FAILING = statement(
  'failing_orgs',
  `SELECT r.org_id AS "orgId" FROM millrace.rollups r
   WHERE r.width = 60 AND r.started_at >= millrace.clock() - interval '1 hour' AND r.failed + r.dead_letter + r.retried > 0
   GROUP BY r.org_id ORDER BY max(r.started_at) DESC, r.org_id LIMIT $1::int4`,
);

/** The orgs whose jobs failed in the last hour, the newest failures first. */
export const failingOrgs = async (db: Queryable, most: number): Promise<string[]> =>
  (await run<{ orgId: string }>(db, FAILING, [most])).map(({ orgId }) => orgId);
