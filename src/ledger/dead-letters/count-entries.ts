import type { Owner } from '../../core/owner.ts';
import { namedStatement, type Queryable, runNamed } from '../driver/statement.ts';
import { type DeadLetterFilter, type FilterParams, filterParams, MATCHES } from './read-entries.ts';

/** How many entries one call counts. */
const MAX_COUNTED = 500_000;

const COUNT = namedStatement<FilterParams & { counted: number }, { entries: number }>(
  'count_dead_letters',
  `SELECT count(*)::int4 AS entries FROM (SELECT FROM millrace.dead_letters d WHERE d.status = 'open' AND ${MATCHES} LIMIT $counted::int4) d`,
);

/** Counts the open entries that match. */
export async function countEntries(db: Queryable, owner: Owner, filter: DeadLetterFilter): Promise<number> {
  const [row] = await runNamed(db, COUNT, { ...filterParams(owner, filter), counted: MAX_COUNTED });
  return row?.entries ?? 0;
}
