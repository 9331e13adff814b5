import type { AuditRow } from '../../core/governance/audit-row.ts';
import { type CursorScope, invalidCursor, readPageCursor, writePageCursor } from '../driver/page-cursor.ts';
import { sealOf } from '../driver/seal.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';
import { ROW_COLUMNS, type StoredRow } from './audit-rows.ts';

export type AuditFilter = {
  /** Null: every org. */
  readonly orgId: string | null;
  readonly projectId: string | null;
  readonly jobId: string | null;
  readonly event: string | null;
  readonly actorId: string | null;
  readonly since: Date | null;
  readonly until: Date | null;
};

// Rows are read from the newest id down. Ids grow with `recorded_at`, which limits the ids that can match times: a row is recorded at or
// after its time, and at most `max_lag` later. The other filters have no index. They look at a bounded number of rows, and the next page
// continues there.
const listText = (source: string): string => `WITH bounds AS MATERIALIZED (
  SELECT CASE WHEN $5::timestamptz IS NULL THEN 0 ELSE millrace.audit_id_at($5::timestamptz) END AS low,
    least($8::int8, CASE WHEN $6::timestamptz IS NULL THEN s.last_id + 1
      ELSE millrace.audit_id_at($6::timestamptz + s.max_lag + interval '1 ms') END) AS high
  FROM millrace.audit_state s
), scanned AS MATERIALIZED (
  SELECT r.* FROM millrace.audit_rows r WHERE ${source} AND r.id >= (SELECT low FROM bounds) AND r.id < (SELECT high FROM bounds)
  ORDER BY r.id DESC LIMIT $9::int4
), reach AS MATERIALIZED (
  SELECT count(*)::int4 AS scanned, min(id) AS "lastScanned" FROM scanned
), found AS (
  SELECT ${ROW_COLUMNS} FROM scanned r
  WHERE ($1::uuid IS NULL OR r.org_id = $1::uuid) AND ($2::uuid IS NULL OR r.project_id = $2::uuid)
    AND ($3::text IS NULL OR r.event = $3::text) AND ($4::text IS NULL OR r.actor_id = $4::text)
    AND ($5::timestamptz IS NULL OR r.at >= $5::timestamptz) AND ($6::timestamptz IS NULL OR r.at < $6::timestamptz)
    AND ($7::uuid IS NULL OR r.job_id = $7::uuid)
  ORDER BY r.id DESC LIMIT $10::int4
)
SELECT reach.scanned, reach."lastScanned", found.* FROM reach LEFT JOIN found ON true ORDER BY found.id DESC`;

const STATEMENTS = {
  org: statement('list_audit_of_org', listText('r.org_id = $1::uuid')),
  job: statement('list_audit_of_job', listText('r.job_id = $7::uuid')),
  all: statement('list_audit', listText('true')),
} as const;

/** How many rows a page looks at if its filter has no index. */
const MOST_SCANNED = 20_000;

type Row = StoredRow & { scanned: number; lastScanned: number | null; id: number | null };

/** Returns a page of rows, newest first. A page may have fewer rows than `limit`, or none, while a next one exists. */
export async function listAudit(
  db: Queryable,
  filter: AuditFilter,
  { cursor, limit }: { cursor: string | null; limit: number },
): Promise<{ rows: AuditRow[]; nextCursor: string | null }> {
  const { orgId, projectId, jobId, event, actorId, since, until } = filter;
  const seal = await sealOf(db);
  const scope: CursorScope = {
    list: 'AUDIT',
    orgId: orgId ?? '*',
    filter: { ...filter, since: since?.getTime(), until: until?.getTime() },
  };
  const before = cursor === null ? Number.MAX_SAFE_INTEGER : readPageCursor(seal, scope, cursor)[0];
  if (!Number.isSafeInteger(before)) throw invalidCursor();
  const isPlain = projectId === null && event === null && actorId === null && since === null && until === null;
  const most = isPlain ? limit + 1 : MOST_SCANNED;
  const made = jobId !== null ? STATEMENTS.job : orgId !== null ? STATEMENTS.org : STATEMENTS.all;
  const rows = await run<Row>(db, made, [orgId, projectId, event, actorId, since, until, jobId, before, most, limit + 1]);
  const found = rows.flatMap(({ scanned: _, lastScanned: __, ...row }) => (row.id === null ? [] : [row as AuditRow]));
  const page = found.slice(0, limit);
  const { scanned = 0, lastScanned = null } = rows[0] ?? {};
  const next = found.length > limit ? (page.at(-1) as AuditRow).id : scanned === most ? lastScanned : null;
  return { rows: page, nextCursor: next === null ? null : writePageCursor(seal, scope, [next]) };
}
