import { randomUUID } from 'node:crypto';
import { AppError } from '../../core/errors.ts';
import { findOrg, createOrg as insertOrg, type Org, setOrgRate } from '../../ledger/access/orgs.ts';
import { type Database, inTransaction } from '../../ledger/driver/database.ts';

const SLUG = /^[a-z0-9][a-z0-9._-]{0,99}$/;

const RESERVED = 'millrace.';

/** Makes an org with the limits of the configuration, or its own. */
export async function createOrg(
  database: Database,
  { slug, requestsPerMinute = null }: { slug: string; requestsPerMinute?: number | null },
): Promise<Org> {
  if (!SLUG.test(slug)) {
    const message =
      'a slug has 1 to 100 lower-case letters, digits, dots, dashes and underscores, the first a letter or a digit';
    throw new AppError('INVALID_REQUEST', { message, details: [{ field: 'slug', code: 'INVALID_SLUG', message }] });
  }
  if (slug.startsWith(RESERVED)) {
    const message = `a slug does not begin with ${RESERVED}: such orgs are the system's own`;
    throw new AppError('INVALID_REQUEST', { message, details: [{ field: 'slug', code: 'RESERVED_SLUG', message }] });
  }
  const id = randomUUID();
  const isNew = await inTransaction(
    database.api,
    async (client) => {
      const created = await insertOrg(client, { id, slug });
      if (created && requestsPerMinute !== null) await setOrgRate(client, id, requestsPerMinute);
      return created;
    },
    { mayRepeat: true },
  );
  if (!isNew) throw new AppError('CONFLICT', { message: `There is an org "${slug}" already. Choose another slug.` });
  return { id, slug, requestsPerMinute };
}

/** The org of that slug; refuses with NOT_FOUND. */
export async function requireOrg(database: Database, slug: string): Promise<Org> {
  const org = await findOrg(database.api, slug);
  if (org === null)
    throw new AppError('NOT_FOUND', { message: `There is no org "${slug}". Make it with "millrace orgs create".` });
  return org;
}
