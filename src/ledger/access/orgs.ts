import { type Queryable, run, statement } from '../driver/statement.ts';

export const DEFAULT_ORG_ID = '00000000-0000-4000-8000-000000000000';

const CREATE = statement(
  'create_org',
  `INSERT INTO millrace.orgs (id, slug, max_running, created_at) VALUES ($1::uuid, $2, $3::int4, millrace.clock())
   ON CONFLICT DO NOTHING RETURNING id`,
);

const SET_CAP = statement(
  'set_org_cap',
  'UPDATE millrace.orgs SET max_running = $2::int4 WHERE id = $1::uuid RETURNING id',
);

const HAS_CAPS = statement(
  'has_org_caps',
  'SELECT EXISTS (SELECT FROM millrace.orgs WHERE max_running IS NOT NULL) AS capped',
);

export type NewOrg = { id: string; slug: string; maxRunning?: number | null };

/** False when the id or the slug is taken. */
export async function createOrg(db: Queryable, { id, slug, maxRunning }: NewOrg): Promise<boolean> {
  const rows = await run(db, CREATE, [id, slug, maxRunning ?? null]);
  return rows.length === 1;
}

/** How many jobs of the org may run at once over all workers; null lifts the cap. False when there is no such org. */
export async function setOrgCap(db: Queryable, orgId: string, maxRunning: number | null): Promise<boolean> {
  const rows = await run(db, SET_CAP, [orgId, maxRunning]);
  return rows.length === 1;
}

/** Whether claims have to count at all. */
export async function hasOrgCaps(db: Queryable): Promise<boolean> {
  const rows = await run<{ capped: boolean }>(db, HAS_CAPS);
  return rows[0]?.capped === true;
}
