import type { Failure } from '../../core/failure.ts';
import type { Owner } from '../../core/owner.ts';
import { namedStatement, type Queryable, runNamed } from '../driver/statement.ts';
import type { Time } from '../reads/job-row.ts';
import { type DeadLetterFilter, type FilterParams, filterParams, MATCHES } from './read-entries.ts';

export type DeadLetterGroup = {
  readonly fingerprint: string;
  readonly type: string;
  readonly error: Failure;
  readonly count: number;
  readonly firstAt: Date;
  readonly lastAt: Date;
  readonly sampleJobId: string;
};

/** How many entries one call counts. */
const MAX_COUNTED = 500_000;

type Params = FilterParams & { status: string; limit: number; counted: number };
type Row = {
  fingerprint: string;
  job_type: string;
  error: string;
  entries: number;
  first_at: Time;
  last_at: Time;
  job_id: string;
  is_partial: boolean;
};

// A counter for each group would be a row that every worker waits for. So groups are counted when they are read. Without other filters
// than the status, the index `dead_letters_by_group` has all that is read.
const groupsText = (status: string, filter: string) => `WITH counted AS (
  SELECT d.fingerprint, d.failed_at FROM millrace.dead_letters d WHERE d.org_id = $orgId::uuid ${status} ${filter} LIMIT $counted::int4
), grouped AS MATERIALIZED (
  SELECT fingerprint, count(*)::int4 AS entries, min(failed_at) AS first_at, max(failed_at) AS last_at FROM counted GROUP BY fingerprint
), shown AS MATERIALIZED (
  SELECT * FROM grouped ORDER BY entries DESC, fingerprint LIMIT $limit::int4
)
SELECT g.fingerprint, g.entries, g.first_at, g.last_at, s.job_id, s.job_type, s.error::text AS error,
  (SELECT sum(entries) FROM grouped) >= $counted::int4 AS is_partial
FROM shown g CROSS JOIN LATERAL (
  SELECT d.job_id, d.job_type, d.error FROM millrace.dead_letters d
  WHERE d.org_id = $orgId::uuid ${status} AND d.fingerprint = g.fingerprint AND d.failed_at = g.last_at ${filter}
  ORDER BY d.seq DESC LIMIT 1) s
ORDER BY g.entries DESC, g.fingerprint`;

const STATUS = 'AND d.status = $status::text';
const PLAIN = namedStatement<Params, Row>('group_dead_letters', groupsText(STATUS, ''));
const FILTERED = namedStatement<Params, Row>('group_filtered_dead_letters', groupsText(STATUS, `AND ${MATCHES}`));
const OF_ALL = namedStatement<Params, Row>('group_all_dead_letters', groupsText('', `AND ${MATCHES}`));

export type DeadLetterGroups = {
  groups: DeadLetterGroup[];
  /** There are more entries than one call counts, so the counts are too low. */
  isPartial: boolean;
};

/** Returns the groups with the most entries first. */
export async function groupEntries(
  db: Queryable,
  owner: Owner,
  { filter, limit }: { filter: DeadLetterFilter; limit: number },
): Promise<DeadLetterGroups> {
  const { status = 'open' } = filter;
  const params: Params = { ...filterParams(owner, filter), status, limit, counted: MAX_COUNTED };
  const { orgId: _, ...conditions } = filterParams(owner, filter);
  const isPlain = Object.values(conditions).every((value) => value === null);
  const rows = await runNamed(db, status === 'all' ? OF_ALL : isPlain ? PLAIN : FILTERED, params);
  return { groups: rows.map(toGroup), isPartial: rows[0]?.is_partial === true };
}

const toGroup = (row: Row): DeadLetterGroup => ({
  fingerprint: row.fingerprint,
  type: row.job_type,
  error: JSON.parse(row.error) as Failure,
  count: row.entries,
  firstAt: new Date(row.first_at),
  lastAt: new Date(row.last_at),
  sampleJobId: row.job_id,
});
