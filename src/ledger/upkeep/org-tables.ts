import { type Queryable, run, statement } from '../driver/statement.ts';

/** Tables whose rows outlive their org: the audit trail, and the note that the org is being deleted. */
export const isKept = (table: string): boolean => table.startsWith('audit_') || table === 'org_erasures';

/** Removed first: what submits jobs, then the jobs. */
const FIRST = ['schedule_jobs', 'schedules', 'jobs'];

// Every table with an org, partitions included and their parents left out. So a table that a later version adds is covered, too.
const TABLES = statement(
  'tables_with_orgs',
  `SELECT c.relname AS name, ceil(pg_relation_size(c.oid) / current_setting('block_size')::float8)::int8 AS pages,
     EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indkey[0] = a.attnum AND i.indpred IS NULL AND i.indisvalid) AS "isIndexed",
     ARRAY(SELECT DISTINCT p.relname::text FROM pg_constraint k JOIN pg_class p ON p.oid = k.confrelid
       WHERE k.conrelid = c.oid AND k.contype = 'f' AND k.confrelid <> c.oid) AS "refersTo"
   FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'org_id' AND NOT a.attisdropped
   WHERE n.nspname = 'millrace' AND c.relkind = 'r' ORDER BY c.relname`,
);

export type OrgTable = {
  readonly name: string;
  readonly pages: number;
  /** Whether an index finds the rows of an org. Otherwise the table is read page by page. */
  readonly isIndexed: boolean;
  readonly refersTo: readonly string[];
};

/** The tables whose rows are removed with their org, each before the tables that it refers to. So no step cascades to many rows. */
export async function tablesToErase(db: Queryable): Promise<OrgTable[]> {
  const all = (await run<OrgTable>(db, TABLES)).filter(({ name }) => !isKept(name));
  const byName = new Map(all.map((table) => [table.name, table]));
  const ordered: OrgTable[] = [];
  const seen = new Set<string>();
  const visit = (table: OrgTable): void => {
    if (seen.has(table.name)) return;
    seen.add(table.name);
    for (const other of all) if (other.refersTo.includes(table.name)) visit(other);
    ordered.push(table);
  };
  for (const name of FIRST) {
    const table = byName.get(name);
    if (table !== undefined) visit(table);
  }
  all.forEach(visit);
  return ordered;
}
