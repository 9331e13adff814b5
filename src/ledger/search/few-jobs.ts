import type { JobState } from '../../core/states.ts';
import { type NamedStatement, namedStatement, type Queryable, runNamed } from '../driver/statement.ts';
import { unreadRecords } from '../history/positions.ts';
import { type FilterParams, filterParams, type JobFilter } from './job-filter.ts';

/** A list this short is used immediately: another filter could hardly save more than its search costs. */
const FEW_ENOUGH = 200;
const MAX_SEARCHES = 6;
/** How many records after the rollup writer's position are read. */
const TAIL_RECORDS = 20_000;

type Params = FilterParams & { orgId: string; limit: number; tag: string };
type Row = { jobs: number; seqs: string };

const few = (name: string, seqs: string): NamedStatement<Params, Row> =>
  namedStatement(name, `SELECT count(*)::int4 AS jobs, coalesce(array_agg(f.seq), '{}')::text AS seqs FROM (${seqs} LIMIT $limit::int4) f`);

const byId = few('jobs_by_ids', 'SELECT j.seq FROM millrace.jobs j WHERE j.id = ANY ($ids::uuid[]) AND (j.org_id = $orgId::uuid) IS TRUE');

// Each pair of priority and type is one range of the index. So are all types of one priority.
const byType = few(
  'jobs_by_type',
  `SELECT s.seq FROM unnest($types::text[]) AS t(name) CROSS JOIN unnest(coalesce($priorities::int2[], '{0,1,2,3,4}')) AS p(n)
   CROSS JOIN LATERAL (
     SELECT unnest(r.seqs) AS seq FROM millrace.records r
       WHERE r.org_id = $orgId::uuid AND r.priority = p.n AND r.job_type = t.name AND r.ns IS NULL
     UNION ALL SELECT c.seq FROM millrace.changed_jobs c WHERE c.org_id = $orgId AND c.priority = p.n AND c.job_type = t.name) s`,
);

const byPriority = few(
  'jobs_by_priority',
  `SELECT s.seq FROM unnest($priorities::int2[]) AS p(n) CROSS JOIN LATERAL (
     SELECT unnest(r.seqs) AS seq FROM millrace.records r WHERE r.org_id = $orgId::uuid AND r.priority = p.n AND r.ns IS NULL
     UNION ALL SELECT c.seq FROM millrace.changed_jobs c WHERE c.org_id = $orgId AND c.priority = p.n) s`,
);

// Finds jobs that the rollup writer has not read yet by their records. If there are too many records, the tag counts as too frequent.
const byTag = namedStatement<Params, Row>(
  'jobs_by_tag',
  `WITH tail AS MATERIALIZED (
  SELECT r.org_id, r.is_tagged, r.seqs FROM millrace.records r WHERE ${unreadRecords('rollups')}
  ORDER BY r.txid, r.id LIMIT ${TAIL_RECORDS}
)
SELECT CASE WHEN (SELECT count(*) FROM tail) < ${TAIL_RECORDS} THEN count(*) ELSE $limit::int4 END::int4 AS jobs,
  coalesce(array_agg(f.seq), '{}')::text AS seqs
FROM (SELECT unnest(t.seqs) AS seq FROM millrace.tagged_jobs t WHERE t.org_id = $orgId::uuid AND t.tag = $tag::text COLLATE "C"
  UNION ALL SELECT unnest(t.seqs) FROM tail t WHERE t.org_id = $orgId AND t.is_tagged LIMIT $limit) f`,
);

const byChange = few(
  'jobs_by_change',
  `SELECT unnest(r.seqs) AS seq FROM millrace.records r WHERE r.org_id = $orgId::uuid AND r.at > $updatedAfter::timestamptz`,
);

const isAsked = (...states: readonly JobState[]) => `$states::millrace.job_state[] && '{${states.join(',')}}'`;

// A job that has not ended has a token. A job that ended badly has a record that says so, even if it was retried since.
const byState = few(
  'jobs_by_state',
  `SELECT seq FROM (
     SELECT unnest(r.seqs) AS seq FROM millrace.records r WHERE r.org_id = $orgId::uuid
       AND r.to_state IN ('failed', 'dead_letter', 'cancelled') AND r.to_state = ANY ($states::millrace.job_state[])
     UNION ALL SELECT seq FROM millrace.timers WHERE org_id = $orgId::uuid AND ${isAsked('delayed', 'retrying')}
     UNION ALL SELECT seq FROM millrace.waiting WHERE org_id = $orgId::uuid AND ${isAsked('pending', 'running')}
     UNION ALL SELECT unnest(seqs) FROM millrace.claims WHERE org_id = $orgId::uuid AND ${isAsked('scheduled', 'running')}
     UNION ALL SELECT seq FROM (SELECT org_id, seq FROM millrace.ready_jobs WHERE ${isAsked('scheduled')}) r WHERE org_id = $orgId::uuid
   ) s`,
);

type Search = { statement: NamedStatement<Params, Row>; tag?: string };

/** The searches that an index can serve. Each of them finds every job that matches the whole filter, and perhaps more. */
function searchesOf({ ids, types, priorities, tags = {}, states, updatedAfter }: JobFilter): Search[] {
  const searches: Search[] = [];
  if (ids !== undefined) searches.push({ statement: byId });
  if (states !== undefined && !states.includes('completed')) searches.push({ statement: byState });
  for (const [name, value] of Object.entries(tags)) searches.push({ statement: byTag, tag: `${name}=${value}` });
  if (types !== undefined) searches.push({ statement: byType });
  else if (priorities !== undefined) searches.push({ statement: byPriority });
  if (updatedAfter !== undefined) searches.push({ statement: byChange });
  return searches.slice(0, MAX_SEARCHES);
}

/**
 * Returns the jobs that one filter finds, if there are at most `max`. They are the text of an array, which goes back to PostgreSQL
 * unchanged. The caller checks them against the whole filter. Null: every filter finds more, so a scan of all jobs meets them often.
 */
export async function fewJobs(
  db: Queryable,
  { orgId, filter, max }: { orgId: string; filter: JobFilter; max: number },
): Promise<string | null> {
  const params = { ...filterParams(filter), orgId };
  let fewest: string | null = null;
  let limit = max + 1;
  for (const { statement, tag = '' } of searchesOf(filter)) {
    const [found] = await runNamed(db, statement, { ...params, tag, limit });
    if (found === undefined) break;
    if (found.jobs < limit) fewest = found.seqs;
    // Another list is worth reading only if it is much shorter. And all lists together must not cost much more than one.
    limit = Math.ceil(found.jobs < limit ? found.jobs / 4 : limit / 2);
    if (limit <= FEW_ENOUGH) break;
  }
  return fewest;
}
