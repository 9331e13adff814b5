import type { NewAlert } from '../../core/governance/alert.ts';
import { int4Array, textArray, uuidArray } from '../driver/binary-array.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';

// Sorted, so that two processes that raise the same alerts do not wait for each other in a circle.
const RAISE = statement(
  'raise_alerts',
  `INSERT INTO millrace.alerts AS a (kind, severity, org_id, subject, message, repeats, hour, first_at, last_at)
   SELECT u.kind, u.severity, u.org_id, u.subject, max(u.message), sum(u.repeats), date_trunc('hour', millrace.clock()), millrace.clock(),
     millrace.clock()
   FROM unnest($1::text[], $2::text[], $3::uuid[], $4::text[], $5::text[], $6::int4[]) AS u(kind, severity, org_id, subject, message, repeats)
   GROUP BY u.kind, u.severity, u.org_id, u.subject ORDER BY u.kind, u.org_id, u.subject
   ON CONFLICT (kind, org_id, subject, hour) DO UPDATE SET repeats = a.repeats + excluded.repeats, last_at = excluded.last_at,
     message = excluded.message
   RETURNING repeats`,
);

/** Raises alerts. A subject has one alert of a kind each hour, which counts the repeats. */
export async function raiseAlerts(db: Queryable, alerts: readonly NewAlert[]): Promise<void> {
  if (alerts.length === 0) return;
  await run(db, RAISE, [
    textArray(alerts.map(({ kind }) => kind)),
    textArray(alerts.map(({ severity }) => severity)),
    uuidArray(alerts.map(({ orgId }) => orgId)),
    textArray(alerts.map(({ subject }) => subject)),
    textArray(alerts.map(({ message }) => message)),
    int4Array(alerts.map(({ count }) => count ?? 1)),
  ]);
}
