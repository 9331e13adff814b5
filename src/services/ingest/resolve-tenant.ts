import { createHash, randomUUID } from 'node:crypto';
import { AppError, invalidRequest } from '../../core/errors.ts';
import type { Engine } from '../../engine/engine.ts';
import { findOrg } from '../../ledger/access/orgs.ts';
import { createTenant, findTenant, namesOfOrg } from '../../ledger/ingest/tenants.ts';

const SLUG = /^[a-z0-9][a-z0-9._-]{0,99}$/;
const RESERVED = 'millrace.';
const MAX_TENANT = 128;

/** Throws if the text of a tenant header cannot name a tenant. */
function checkTenant(tenant: string): void {
  if (tenant.length <= MAX_TENANT && !/\p{Cc}/u.test(tenant)) return;
  const message = `X-Fetchbox-Tenant must have 1 to ${MAX_TENANT} characters without control characters`;
  throw invalidRequest({ field: 'x-fetchbox-tenant', code: 'INVALID_VALUE', message });
}

/** The org of a tenant of a trusted network. A new tenant gets an org. Requests without a tenant belong to the default org. */
export async function resolveTenant(
  { database }: Pick<Engine, 'database'>,
  { tenant, defaultOrg }: { tenant: string | null; defaultOrg: string },
): Promise<string> {
  if (tenant === null) return orgOfSlug(database, defaultOrg);
  checkTenant(tenant);
  const known = await findTenant(database.api, tenant);
  if (known !== null) return orgOfTenant(known, tenant);
  for (const slug of slugsFor(tenant)) {
    const id = randomUUID();
    if (await createTenant(database.api, { id, slug, tenant })) return id;
    // Another process may have created the tenant meanwhile.
    const found = await findTenant(database.api, tenant);
    if (found !== null) return orgOfTenant(found, tenant);
  }
  throw new AppError('CONFLICT', { message: `The tenant "${tenant}" could not get an org: its name is taken. Choose another tenant.` });
}

function orgOfTenant({ id, isDeleting }: { id: string; isDeleting: boolean }, tenant: string): string {
  if (!isDeleting) return id;
  throw new AppError('CONFLICT', {
    message: `The org of the tenant "${tenant}" is being deleted. Use another tenant, or wait until its data is gone.`,
  });
}

async function orgOfSlug({ api }: Engine['database'], slug: string): Promise<string> {
  const org = await findOrg(api, slug);
  if (org !== null) return org.id;
  throw new AppError('INVALID_CONFIG', {
    message: `The org "${slug}" of ingest.org does not exist. Create it with "millrace orgs create ${slug}".`,
  });
}

/** The tenant itself if it can be a slug, and otherwise a name from its hash. */
function slugsFor(tenant: string): string[] {
  const hashed = `tenant-${createHash('sha256').update(tenant).digest('hex').slice(0, 32)}`;
  return SLUG.test(tenant) && !tenant.startsWith(RESERVED) ? [tenant, hashed] : [hashed];
}

/** With keys, the org of the key wins. A tenant header may repeat it, but not name another org. */
export async function requireOwnTenant({ database }: Pick<Engine, 'database'>, orgId: string, tenant: string | null): Promise<void> {
  if (tenant === null) return;
  checkTenant(tenant);
  const names = await namesOfOrg(database.api, orgId);
  if (tenant === orgId || tenant === names?.slug || tenant === names?.externalRef) return;
  throw new AppError('FORBIDDEN', {
    message: 'X-Fetchbox-Tenant names another org than the API key. Leave the header out, or use a key of that org.',
  });
}
