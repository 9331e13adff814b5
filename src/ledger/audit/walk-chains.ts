import type { AuditRow } from '../../core/governance/audit-row.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';
import { ROW_COLUMNS } from './audit-rows.ts';

/** Where the chain of an org begins and ends. */
export type Chain = {
  readonly orgId: string;
  /** The position of the oldest row that is kept. */
  readonly first: number;
  /** The hash before that row. */
  readonly anchorHash: string;
  readonly last: number;
  /** The id of the last row. */
  readonly lastId: number;
  readonly lastHash: string;
};

const CHAIN = statement(
  'audit_chain',
  `SELECT org_id AS "orgId", first_position AS first, encode(anchor_hash, 'hex') AS "anchorHash", last_position AS last, last_id AS "lastId",
     encode(last_hash, 'hex') AS "lastHash"
   FROM millrace.audit_chains WHERE org_id = $1::uuid`,
);

// Also finds rows whose chain is missing.
const NEXT = statement(
  'next_audit_chain',
  `SELECT least((SELECT org_id FROM millrace.audit_chains WHERE org_id > $1::uuid ORDER BY org_id LIMIT 1),
     (SELECT org_id FROM millrace.audit_rows WHERE org_id > $1::uuid ORDER BY org_id, id LIMIT 1)) AS "orgId"`,
);

const ROWS = statement(
  'audit_chain_rows',
  `SELECT ${ROW_COLUMNS}, r.at <> date_trunc('milliseconds', r.at) OR r.recorded_at <> date_trunc('milliseconds', r.recorded_at) AS "isFiner"
   FROM millrace.audit_rows r WHERE r.org_id = $1::uuid AND r.id > $2::int8 AND r.id <= $3::int8
   ORDER BY r.id LIMIT $4::int4`,
);

export async function chainOf(db: Queryable, orgId: string): Promise<Chain | null> {
  return (await run<Chain>(db, CHAIN, [orgId]))[0] ?? null;
}

/** The org with the next chain, in the order of ids. Null: there is none. */
export async function nextChainOrg(db: Queryable, after: string): Promise<string | null> {
  return (await run<{ orgId: string | null }>(db, NEXT, [after]))[0]?.orgId ?? null;
}

/** `isFiner`: a time of the row has microseconds, which the audit writer never stores. */
export type ChainRow = AuditRow & { readonly isFiner: boolean };

type Range = { afterId: number; lastId: number; limit: number };

/** The rows of a chain after an id, oldest first. */
export const chainRows = (db: Queryable, orgId: string, { afterId, lastId, limit }: Range): Promise<ChainRow[]> =>
  run<ChainRow>(db, ROWS, [orgId, afterId, lastId, limit]);

// One snapshot: the audit writer adds rows and moves the end of the chain together.
const STRAY = statement(
  'stray_audit_row',
  `SELECT r.id, r.position FROM millrace.audit_rows r
   WHERE r.org_id = $1::uuid AND r.id > (SELECT c.last_id FROM millrace.audit_chains c WHERE c.org_id = $1::uuid) ORDER BY r.id LIMIT 1`,
);

/** A row behind the end of its chain, which the audit writer did not add. */
export async function strayRow(db: Queryable, orgId: string): Promise<Pick<AuditRow, 'id' | 'position'> | null> {
  return (await run<Pick<AuditRow, 'id' | 'position'>>(db, STRAY, [orgId]))[0] ?? null;
}
