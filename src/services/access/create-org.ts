import { randomUUID } from 'node:crypto';
import { AppError } from '../../core/errors.ts';
import { findOrg, createOrg as insertOrg, type Org, setOrgRate } from '../../ledger/access/orgs.ts';
import { type Database, inTransaction } from '../../ledger/driver/database.ts';

const SLUG = /^[a-z0-9][a-z0-9._-]{0,99}$/;

const RESERVED = 'millrace.';

/** Without `requestsPerMinute` the org has the configured rate limit. */
export async function createOrg(
  database: Database,
  { slug, requestsPerMinute = null }: { slug: string; requestsPerMinute?: number | null },
): Promise<Org> {
  if (!SLUG.test(slug)) {
    const message =
      'a slug must have 1 to 100 lower-case letters, digits, dots, dashes and underscores, and start with a letter or a digit';
    throw new AppError('INVALID_REQUEST', { message, details: [{ field: 'slug', code: 'INVALID_SLUG', message }] });
  }
  if (slug.startsWith(RESERVED)) {
    const message = `a slug must not start with ${RESERVED}, which is reserved for the system`;
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
  if (!isNew) throw new AppError('CONFLICT', { message: `The org "${slug}" already exists. Choose another slug.` });
  return { id, slug, requestsPerMinute };
}

/** Throws NOT_FOUND if there is no such org. */
export async function requireOrg(database: Database, { slug }: { slug: string }): Promise<Org> {
  const org = await findOrg(database.api, slug);
  if (org === null) throw new AppError('NOT_FOUND', { message: `There is no org "${slug}". Create it with "millrace orgs create".` });
  return org;
}
