import { type Queryable, run, statement } from '../driver/statement.ts';

const FIND = statement('find_org', 'SELECT id, slug, requests_per_minute FROM millrace.orgs WHERE slug = $1');

const SET_RATE = statement(
  'set_org_rate',
  'UPDATE millrace.orgs SET requests_per_minute = $2::int4 WHERE id = $1::uuid RETURNING id',
);

/** `requestsPerMinute` is null where the configured limit holds. */
export type Org = { id: string; slug: string; requestsPerMinute: number | null };

type Row = { id: string; slug: string; requests_per_minute: number | null };

export async function findOrg(db: Queryable, slug: string): Promise<Org | null> {
  const [row] = await run<Row>(db, FIND, [slug]);
  return row === undefined ? null : { id: row.id, slug: row.slug, requestsPerMinute: row.requests_per_minute };
}

/** Holds from the next block of permits on; null goes back to the configured limit. False when there is no such org. */
export async function setOrgRate(db: Queryable, orgId: string, requestsPerMinute: number | null): Promise<boolean> {
  const rows = await run(db, SET_RATE, [orgId, requestsPerMinute]);
  return rows.length === 1;
}
