import { namedStatement, type Queryable, runNamed } from '../../src/ledger/driver/statement.ts';
import { type FilterParams, filterParams, type JobFilter, MATCHES } from '../../src/ledger/search/job-filter.ts';
import type { SearchOrder } from '../../src/ledger/search/search-cursor.ts';

const ORDER_TEXT: Record<SearchOrder, string> = {
  CREATED_DESC: 'j.seq DESC',
  CREATED_ASC: 'j.seq',
  UPDATED_DESC: 'j.updated_at DESC, j.seq DESC',
};

const every = (order: SearchOrder) =>
  namedStatement<FilterParams & { orgId: string }, { id: string }>(
    `every_match_${order.toLowerCase()}`,
    `SELECT j.id FROM millrace.jobs j WHERE j.org_id = $orgId::uuid AND ${MATCHES} ORDER BY ${ORDER_TEXT[order]}`,
  );

const EVERY = {
  CREATED_DESC: every('CREATED_DESC'),
  CREATED_ASC: every('CREATED_ASC'),
  UPDATED_DESC: every('UPDATED_DESC'),
};

/** The ids of all jobs that match, found without any of the indexes a search uses. */
export async function everyMatch(
  db: Queryable,
  orgId: string,
  { filter, order }: { filter: JobFilter; order: SearchOrder },
): Promise<string[]> {
  const rows = await runNamed(db, EVERY[order], { ...filterParams(filter), orgId });
  return rows.map(({ id }) => id);
}
