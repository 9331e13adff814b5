import { randomUUID } from 'node:crypto';
import { AppError } from '../../core/errors.ts';
import type { Requester } from '../../core/governance/audit-action.ts';
import { findOrg, createOrg as insertOrg, type Org, setOrgRate } from '../../ledger/access/orgs.ts';
import { recordActions } from '../../ledger/audit/record-action.ts';
import { type Database, inTransaction } from '../../ledger/driver/database.ts';
import { checkOrgName } from './org-names.ts';
import { AT_CONSOLE } from './requesters.ts';

export type CreateOrgRequest = {
  readonly slug: string;
  /** Without it the org has the configured rate limit. */
  readonly requestsPerMinute?: number | null;
  readonly requester?: Requester;
  /** What the caller calls a slug. */
  readonly field?: string;
};

export async function createOrg(database: Database, request: CreateOrgRequest): Promise<Org> {
  const { slug, requestsPerMinute = null, requester = AT_CONSOLE, field = 'slug' } = request;
  checkOrgName(slug, field);
  const id = randomUUID();
  const isNew = await inTransaction(
    database.api,
    async (client) => {
      const created = await insertOrg(client, { id, slug });
      if (!created) return false;
      if (requestsPerMinute !== null) await setOrgRate(client, id, requestsPerMinute);
      await recordActions(client, [{ orgId: id, event: 'org.created', requester, details: { name: slug } }]);
      return true;
    },
    { mayRepeat: true },
  );
  if (!isNew) throw new AppError('CONFLICT', { message: `The org "${slug}" already exists. Choose another ${field}.` });
  return { id, slug, requestsPerMinute };
}

/** Throws NOT_FOUND if there is no such org. */
export async function requireOrg(database: Database, { slug }: { slug: string }): Promise<Org> {
  const org = await findOrg(database.api, slug);
  if (org === null) throw new AppError('NOT_FOUND', { message: `There is no org "${slug}". Create it with "millrace orgs create".` });
  return org;
}
