import { uuidArray } from '../driver/binary-array.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';

const STANDING = statement('find_standing_orgs', 'SELECT id FROM millrace.orgs WHERE id = ANY ($1::uuid[]) AND deleting_at IS NULL');

const DELETING = statement('find_deleting_orgs', 'SELECT id FROM millrace.orgs WHERE deleting_at IS NOT NULL');

type Row = { id: string };

/** Returns the orgs among these that exist and are not being deleted. */
export async function findStandingOrgs(db: Queryable, orgIds: readonly string[]): Promise<Set<string>> {
  return new Set((await run<Row>(db, STANDING, [uuidArray(orgIds)])).map(({ id }) => id));
}

/** Returns the orgs that are being deleted, which are few. */
export async function findDeletingOrgs(db: Queryable): Promise<Set<string>> {
  return new Set((await run<Row>(db, DELETING)).map(({ id }) => id));
}
