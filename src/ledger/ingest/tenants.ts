import { SYSTEM_ORG_ID } from '../../core/delivery-policy.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';

// An org that an operator created under the name of the tenant is the tenant's, unless another org has that name as its reference.
const FIND = statement(
  'find_tenant',
  `SELECT id, deleting_at IS NOT NULL AS "isDeleting" FROM millrace.orgs WHERE external_ref = $1 OR (slug = $1 AND external_ref IS NULL AND id <> '${SYSTEM_ORG_ID}')
   ORDER BY external_ref IS NULL LIMIT 1`,
);

const CREATE = statement(
  'create_tenant',
  `INSERT INTO millrace.orgs (id, slug, external_ref, created_at) VALUES ($1::uuid, $2, $3, millrace.clock())
   ON CONFLICT DO NOTHING RETURNING id`,
);

const NAMES = statement('names_of_org', 'SELECT slug, external_ref AS "externalRef" FROM millrace.orgs WHERE id = $1::uuid');

/** The org of a tenant, or null if the tenant is new. */
export async function findTenant(db: Queryable, tenant: string): Promise<{ id: string; isDeleting: boolean } | null> {
  return (await run<{ id: string; isDeleting: boolean }>(db, FIND, [tenant]))[0] ?? null;
}

/** Returns false if the slug or the tenant is taken. */
export async function createTenant(db: Queryable, { id, slug, tenant }: { id: string; slug: string; tenant: string }): Promise<boolean> {
  return (await run(db, CREATE, [id, slug, tenant])).length === 1;
}

export async function namesOfOrg(db: Queryable, orgId: string): Promise<{ slug: string; externalRef: string | null } | null> {
  return (await run<{ slug: string; externalRef: string | null }>(db, NAMES, [orgId]))[0] ?? null;
}
