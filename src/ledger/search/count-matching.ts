import type { Owner } from '../../core/owner.ts';
import { type NamedStatement, namedStatement, type Queryable, runNamed } from '../driver/statement.ts';
import { type FilterParams, filterParams, type JobFilter, MATCHES, type OwnedFilter } from './job-filter.ts';
import { searchBounds } from './search-bounds.ts';

/** How many jobs match a filter, and how many of them have ended. */
export type MatchCounts = { matching: number; ended: number };

type Params = FilterParams & { orgId: string; low: number; high: number; budget: number };
type Row = MatchCounts & { place: number | null };

const RANGE = 'j.org_id = $orgId::uuid AND j.seq > $low::int8 AND j.seq < $high::int8';

// Looks at the newest jobs of the range, as many as the budget allows. `place` is the last of them, or null if no job is left.
const COUNT: NamedStatement<Params, Row> = namedStatement(
  'count_matching',
  `WITH frontier AS MATERIALIZED (
  SELECT (SELECT j.seq FROM millrace.jobs j WHERE ${RANGE} ORDER BY j.seq DESC OFFSET $budget::int4 - 1 LIMIT 1) AS place
)
SELECT count(*)::int4 AS matching, count(*) FILTER (WHERE j.completed_at IS NOT NULL)::int4 AS ended,
  (SELECT place FROM frontier) AS place
FROM millrace.jobs j WHERE ${RANGE} AND j.seq >= coalesce((SELECT place FROM frontier), 0) AND ${MATCHES}`,
);

/** A statement looks at no more jobs than this, so that it ends within the time limit of a search. */
const BUDGET = 20_000;

/** Counts all jobs of the owner that match, without reading them one by one. Each statement has its own snapshot. */
export async function countMatching(db: Queryable, { orgId, projectId }: Owner, given: JobFilter): Promise<MatchCounts> {
  const filter: OwnedFilter = projectId === null ? given : { ...given, projectId };
  const bounds = await searchBounds(db, orgId, { filter, cursorUs: null });
  const total = { matching: 0, ended: 0 };
  for (let high: number | null = bounds.high; high !== null; ) {
    const [row]: Row[] = await runNamed(db, COUNT, { ...filterParams(filter), orgId, low: bounds.low, high, budget: BUDGET });
    total.matching += row?.matching ?? 0;
    total.ended += row?.ended ?? 0;
    high = row?.place ?? null;
  }
  return total;
}
