import type { AlertKind, AlertSeverity } from '../../core/governance/alert.ts';
import { namedStatement, type Queryable, run, runNamed, statement } from '../driver/statement.ts';

type AlertState = 'open' | 'acknowledged';

export type Alert = {
  readonly id: string;
  readonly kind: AlertKind;
  readonly severity: AlertSeverity;
  /** Null: it concerns the whole platform. */
  readonly orgId: string | null;
  readonly subject: string;
  readonly message: string;
  readonly count: number;
  readonly firstAt: Date;
  readonly lastAt: Date;
  readonly state: AlertState;
  readonly acknowledgedAt: Date | null;
  readonly acknowledgedBy: string | null;
};

export const ALERT_COLUMNS = `a.id, a.kind, a.severity, a.org_id AS "orgId", a.subject, a.message, a.repeats AS count, a.first_at AS "firstAt", a.last_at AS "lastAt",
  CASE WHEN a.acknowledged_at IS NULL THEN 'open' ELSE 'acknowledged' END AS state, a.acknowledged_at AS "acknowledgedAt",
  a.acknowledged_by AS "acknowledgedBy"`;

export type AlertFilter = { readonly orgId: string | null; readonly state: AlertState | null; readonly kind: AlertKind | null };

/** The last alert of the page before. Times are exact to the microsecond, so they are kept as text. */
export type AlertPosition = { readonly firstAt: string; readonly id: string };

type Params = AlertFilter & { afterAt: string | null; afterId: string | null; limit: number };

// In the order of `first_at`, which never changes. In the order of `last_at`, an alert that is raised again between two pages would be missed.
const LIST = namedStatement<Params, Alert & { place: string }>(
  'list_alerts',
  `SELECT ${ALERT_COLUMNS}, a.first_at::text AS place FROM millrace.alerts a
   WHERE ($orgId::uuid IS NULL OR a.org_id = $orgId::uuid) AND ($kind::text IS NULL OR a.kind = $kind::text)
     AND ($state::text IS NULL OR (a.acknowledged_at IS NULL) = ($state::text = 'open'))
     AND ($afterAt::text IS NULL OR (a.first_at, a.id) < ($afterAt::text::timestamptz, $afterId::uuid))
   ORDER BY a.first_at DESC, a.id DESC LIMIT $limit::int4`,
);

/** Newest first. */
export async function listAlerts(
  db: Queryable,
  filter: AlertFilter,
  { after, limit }: { after: AlertPosition | null; limit: number },
): Promise<{ alerts: Alert[]; next: AlertPosition | null }> {
  const params = { ...filter, afterAt: after?.firstAt ?? null, afterId: after?.id ?? null, limit: limit + 1 };
  const rows = await runNamed(db, LIST, params);
  const page = rows.slice(0, limit);
  const last = page.at(-1);
  return {
    alerts: page.map(({ place: _, ...alert }) => alert),
    next: rows.length > limit && last !== undefined ? { firstAt: last.place, id: last.id } : null,
  };
}

const FIND = statement(
  'find_alert',
  `SELECT ${ALERT_COLUMNS} FROM millrace.alerts a WHERE a.id = $1::uuid AND ($2::uuid IS NULL OR a.org_id = $2::uuid)`,
);

const ACKNOWLEDGE = statement(
  'acknowledge_alert',
  `UPDATE millrace.alerts a SET acknowledged_at = millrace.clock(), acknowledged_by = $3
   WHERE a.id = $1::uuid AND ($2::uuid IS NULL OR a.org_id = $2::uuid) AND a.acknowledged_at IS NULL RETURNING ${ALERT_COLUMNS}`,
);

/** `isNew`: nobody had acknowledged it before. */
export type Acknowledged = { readonly alert: Alert; readonly isNew: boolean };

/** Acknowledges an alert of one org or of all. Returns null if there is none. The first acknowledgement stays. */
export async function acknowledgeAlert(
  db: Queryable,
  { id, orgId, actor }: { id: string; orgId: string | null; actor: string },
): Promise<Acknowledged | null> {
  const [changed] = await run<Alert>(db, ACKNOWLEDGE, [id, orgId, actor]);
  if (changed !== undefined) return { alert: changed, isNew: true };
  const [alert] = await run<Alert>(db, FIND, [id, orgId]);
  return alert === undefined ? null : { alert, isNew: false };
}
