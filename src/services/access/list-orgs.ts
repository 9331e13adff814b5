import { AppError } from '../../core/errors.ts';
import { isUuid } from '../../core/ids.ts';
import { suggestion } from '../../core/nearest-name.ts';
import { type ListedOrg, listOrgs as listInLedger, type Org, orgsWithJobs as withJobsInLedger } from '../../ledger/access/orgs.ts';
import type { Database } from '../../ledger/driver/database.ts';

export type { ListedOrg, Org };

export const listOrgs = ({ api }: Pick<Database, 'api'>): Promise<ListedOrg[]> => listInLedger(api);

export const orgsWithJobs = ({ api }: Pick<Database, 'api'>): Promise<Org[]> => withJobsInLedger(api);

/** Finds an org by its slug or its id. Throws NOT_FOUND with the nearest slug. */
export async function findOrgByName(database: Pick<Database, 'api'>, name: string): Promise<Org> {
  const orgs = await listOrgs(database);
  const id = isUuid(name) ? name.toLowerCase() : null;
  const found = orgs.find((org) => org.slug === name || org.id === id);
  if (found !== undefined) return found;
  const near = suggestion(
    name,
    orgs.map(({ slug }) => slug),
  );
  throw new AppError('NOT_FOUND', { message: `There is no org "${name}"${near}. See "millrace orgs list".` });
}
