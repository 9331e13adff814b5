import { type Queryable, run, statement } from '../driver/statement.ts';
import { unreadRecords } from '../history/positions.ts';

const LAG = statement(
  'audit_lag',
  `SELECT greatest(0, coalesce(date_part('epoch', millrace.clock() - least(
       (SELECT r.at FROM millrace.records r WHERE ${unreadRecords('audit')} ORDER BY r.txid, r.id LIMIT 1),
       (SELECT a.at FROM millrace.audit_actions a ORDER BY a.txid, a.id LIMIT 1))), 0))::float8 AS "lagSeconds",
     (SELECT count(*)::int4 FROM (SELECT FROM millrace.set_aside WHERE projection = 'audit' LIMIT 1000) s) AS "setAside"`,
);

const UNAUDITED = statement(
  'org_is_unaudited',
  `SELECT EXISTS (SELECT FROM (SELECT r.org_id FROM millrace.records r WHERE ${unreadRecords('audit')}) r WHERE r.org_id = $1::uuid) AS "isUnaudited"`,
);

/** Whether the audit trail has yet to read something about jobs of the org. */
export const isUnaudited = async (db: Queryable, orgId: string): Promise<boolean> =>
  (await run<{ isUnaudited: boolean }>(db, UNAUDITED, [orgId]))[0]?.isUnaudited === true;

/** How far the audit trail is behind, and how many events could not be added to it (at most 1000). */
export type AuditLag = { readonly lagSeconds: number; readonly setAside: number };

export async function auditLag(db: Queryable): Promise<AuditLag> {
  return (await run<AuditLag>(db, LAG))[0] as AuditLag;
}
