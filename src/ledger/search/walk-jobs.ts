import { eventsIn } from '../history/positions.ts';
import { MATCHES } from './job-filter.ts';

/** Where a page takes its jobs from. `all`: the jobs of the org in order. `few`: a list of jobs that one filter named. */
export type Source = 'all' | 'few';
export type Direction = 'down' | 'up';

/**
 * The tables of a page. `matched` has the jobs that match the filter, as far as the frontier. `frontier` has one row with `place`: the
 * last job that was looked at, or null when no job is left beyond it.
 */
export const tablesOf = (source: Source, direction: Direction): string =>
  source === 'all' ? allText(direction) : fewText(direction);

const RANGE = 'j.org_id = $orgId::uuid AND j.seq > $low::int8 AND j.seq < $high::int8';

/** The candidates that match. The OFFSET keeps the planner from walking all jobs to find the candidates. */
const lookedUp = (candidates: string): string => `SELECT j.org_id, c.seq, j.updated_at FROM ${candidates} c
    CROSS JOIN LATERAL (SELECT j.org_id, j.updated_at FROM millrace.jobs j
      WHERE j.org_id = $orgId::uuid AND j.seq = c.seq AND ${MATCHES} OFFSET 0) j`;

// The frontier comes from the index alone. The jobs are then read until the page is full.
function allText(direction: Direction): string {
  const [order, within] =
    direction === 'down'
      ? ['DESC', 'j.seq >= coalesce((SELECT place FROM frontier), 0)']
      : ['ASC', `j.seq <= coalesce((SELECT place FROM frontier), ${Number.MAX_SAFE_INTEGER})`];
  return `frontier AS MATERIALIZED (
  SELECT (SELECT j.seq FROM millrace.jobs j WHERE ${RANGE} ORDER BY j.seq ${order} OFFSET $budget::int4 - 1 LIMIT 1) AS place
), matched AS (SELECT j.org_id, j.seq, j.updated_at FROM millrace.jobs j WHERE ${RANGE} AND ${within} AND ${MATCHES})`;
}

// The jobs are looked up in order until the page is full.
function fewText(direction: Direction): string {
  const [order, last] = direction === 'down' ? ['DESC', 'min'] : ['ASC', 'max'];
  return `candidates AS MATERIALIZED (
  SELECT DISTINCT s.seq FROM unnest($seqs::text::int8[]) AS s(seq) WHERE s.seq > $low::int8 AND s.seq < $high::int8
  ORDER BY s.seq ${order} LIMIT $budget::int4
), frontier AS MATERIALIZED (
  SELECT CASE WHEN count(*) = $budget::int4 THEN ${last}(seq) END AS place FROM candidates
), matched AS (${lookedUp(`(SELECT seq FROM candidates ORDER BY seq ${order})`)})`;
}

/** A time in microseconds since 1970, as cursors have it. */
export const timeOf = (us: string): string => `(timestamptz 'epoch' + ${us}::int8 * interval '1 microsecond')`;

/**
 * The same in the order of the last change, newest first. Records are read until they name enough jobs; records of one moment are
 * read together. `place` is the time of the last one.
 */
export const CHANGED_TABLES = `read AS MATERIALIZED (
  SELECT r.at, r.seqs, ${eventsIn()} AS jobs FROM millrace.records r
  WHERE r.org_id = $orgId::uuid AND r.at <= ${timeOf('$untilUs')} AND r.at > ${timeOf('$sinceUs')}
  ORDER BY r.at DESC FETCH FIRST ($budget::int4) ROWS WITH TIES
), counted AS MATERIALIZED (
  SELECT at, seqs, coalesce(sum(jobs) OVER (ORDER BY at DESC GROUPS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) < $budget::int4 AS is_used
  FROM read
), frontier AS MATERIALIZED (
  SELECT CASE WHEN count(*) >= $budget::int4 OR NOT bool_and(is_used) THEN
    (extract(epoch FROM min(at) FILTER (WHERE is_used)) * 1000000)::int8 END AS place FROM counted
), matched AS (${lookedUp('(SELECT DISTINCT unnest(seqs) AS seq FROM counted WHERE is_used ORDER BY seq)')}
  WHERE j.updated_at >= coalesce((SELECT ${timeOf('place')} FROM frontier), '-infinity'))`;
