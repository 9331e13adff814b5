import { priorityNumber } from '../../core/priority.ts';
import type { JobState } from '../../core/states.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';
import { unreadRecords } from '../history/positions.ts';
import { BIN_MS, BLOCK_BITS } from '../history/rollups.ts';
import { type JobFilter, MATCHES } from './job-filter.ts';

/**
 * Where to look for jobs that match: all of them in order, or those that one filter names. Every job found is checked against
 * the whole filter, so a source only has to leave none out.
 */
export type Source = {
  kind: 'all' | 'named';
  terms: readonly string[];
  tokens: boolean;
  changedAfterUs: number | null;
  /** How many jobs it names; exact where they are few. */
  estimate: number;
};

export const ALL_JOBS: Source = { kind: 'all', terms: [], tokens: false, changedAfterUs: null, estimate: Infinity };

/** Few enough to be read and sorted at once. */
const FEW = 3_000;
/** Records after the projector's position that are read, and jobs of theirs that are looked up. */
const TAIL_RECORDS = 20_000;
const TAIL_JOBS = 10_000;
const MAX_TERMS = 20;
const PROBED_POSTINGS = 1_000;
/** A block has no more jobs than this, so a block's postings are always read together. */
const POSTINGS_READ = 2 ** BLOCK_BITS * 2;
const CHANGES_READ = 2_000;
const BIN_US = BIN_MS * 1_000;
/** Few enough to be told apart from all that changed. */
const SIFTABLE = 20_000;

const TOKENS = `
  SELECT seq FROM millrace.ready_jobs WHERE org_id = $1::uuid
  UNION ALL SELECT seq FROM millrace.timers WHERE org_id = $1::uuid
  UNION ALL SELECT seq FROM millrace.waiting WHERE org_id = $1::uuid
  UNION ALL SELECT unnest(seqs) FROM millrace.claims WHERE org_id = $1::uuid`;

const AFTER_POSITION = unreadRecords('rollups', 'records');

const TAIL = `(SELECT org_id, job_type, priority, to_state, is_tagged, ns, seqs FROM millrace.records
    WHERE ${AFTER_POSITION} ORDER BY txid, id LIMIT ${TAIL_RECORDS}) r`;

/** Whether record `r` will be posted under one of the terms, or under `changed` where that is asked for. */
const willBePosted = (terms: string, changed: string) => `r.org_id = $1::uuid AND (
    ${changed}::int8 IS NOT NULL OR 'state:' || r.to_state = ANY (${terms}::text[]) OR (r.ns IS NULL AND (
      'type:' || r.job_type = ANY (${terms}) OR 'priority:' || r.priority = ANY (${terms})
      OR (r.is_tagged AND EXISTS (SELECT FROM unnest(${terms}) AS t(term) WHERE t.term LIKE 'tag:%')))))`;

/** What every statement over a named source takes from $15 on. */
const SETS = `
  SELECT unnest(r.seqs) AS seq FROM ${TAIL} WHERE ${willBePosted('$14', '$16')}
  UNION ALL SELECT seq FROM (${TOKENS}) t WHERE $15::boolean
  UNION ALL SELECT unnest(seqs) FROM millrace.postings
    WHERE org_id = $1::uuid AND term = 'changed' AND $16::int8 IS NOT NULL AND high > $16
  UNION ALL SELECT seq FROM (SELECT seq FROM millrace.jobs WHERE id = ANY ($9::uuid[]) AND (org_id = $1::uuid) IS TRUE OFFSET 0) i`;

/** Candidates whose job `j` fits the filter. The fence keeps the planner from walking all jobs to find the candidates. */
const lookedUp = (
  candidates: string,
) => `${candidates} c CROSS JOIN LATERAL (SELECT j.org_id, j.seq, j.updated_at FROM millrace.jobs j
    WHERE j.org_id = $1::uuid AND j.seq = c.seq AND ${MATCHES} OFFSET 0) j`;

export const MATCHING = lookedUp('candidates');

/** The same for what `candidatesText` gave, in its order, so that no more are looked up than a page needs. */
export function matchingText(kind: Source['kind'], direction: Direction): string {
  if (kind === 'all') return 'candidates c CROSS JOIN LATERAL (SELECT c.org_id, c.seq, c.updated_at WHERE c.fits) j';
  return lookedUp(`(SELECT seq FROM candidates ORDER BY seq ${direction === 'down' ? 'DESC' : 'ASC'})`);
}

type Direction = 'down' | 'up';

/** `candidates` and the `frontier`: jobs on its far side may be missing; null when none is. */
export function candidatesText(kind: Source['kind'], direction: Direction): string {
  return kind === 'all' ? allText(direction) : namedText(direction);
}

function allText(direction: Direction): string {
  const [order, last] = direction === 'down' ? ['DESC', 'min(seq) - 1'] : ['ASC', 'max(seq) + 1'];
  return `candidates AS MATERIALIZED (
  SELECT j.org_id, j.seq, j.updated_at, ${MATCHES} AS fits FROM millrace.jobs j
  WHERE j.org_id = $1::uuid AND j.seq > $11::int8 AND j.seq < $12::int8 ORDER BY j.seq ${order} LIMIT $13::int4
), frontier AS MATERIALIZED (
  SELECT CASE WHEN count(*) >= $13::int4 THEN ${last} END AS seq FROM candidates
)`;
}

function namedText(direction: Direction): string {
  const down = direction === 'down';
  const [edge, order, near] = down ? ['high', 'DESC', 'max'] : ['low', 'ASC', 'min'];
  const place = down ? `((${near}(block) + 1) << ${BLOCK_BITS}) - 1` : `${near}(block) << ${BLOCK_BITS}`;
  return `posted AS MATERIALIZED (
  SELECT p.seqs, p.block, p.is_last, sum(p.jobs) OVER (ORDER BY p.block ${order} GROUPS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
  FROM unnest($14::text[]) AS t(term) CROSS JOIN LATERAL (
    SELECT seqs, jobs, ${edge} >> ${BLOCK_BITS} AS block, row_number() OVER (ORDER BY ${edge} ${order}) = ${POSTINGS_READ} AS is_last
    FROM (SELECT seqs, jobs, ${edge} FROM millrace.postings WHERE org_id = $1::uuid AND term = t.term COLLATE "C" AND term <> 'changed'
      AND low < $12::int8 AND high > $11::int8 ORDER BY ${edge} ${order} LIMIT ${POSTINGS_READ}) q) p
), frontier AS MATERIALIZED (
  SELECT ${place} AS seq FROM posted WHERE before >= $13::int4 OR is_last
), candidates AS MATERIALIZED (
  SELECT DISTINCT seq FROM (
    SELECT unnest(seqs) AS seq FROM posted WHERE coalesce(before, 0) < $13::int4 UNION ALL ${SETS}) c
  WHERE seq > $11::int8 AND seq < $12::int8
)`;
}

/** Everything a named source has, without an order: for a source of few jobs. */
export const FEW_CANDIDATES = `candidates AS MATERIALIZED (
  SELECT DISTINCT seq FROM (SELECT unnest(seqs) AS seq FROM millrace.postings
    WHERE org_id = $1::uuid AND term = ANY ($14::text[] COLLATE "C") UNION ALL ${SETS}) c
)`;

/**
 * Newest changes first, up to $11 (microseconds); the frontier is the latest change that may be missing. Jobs without a posting under
 * one of the terms of $17 are left out before they are looked up. What is not posted yet comes from the records, the newest first, too.
 */
export const CHANGED_CANDIDATES = `tail AS MATERIALIZED (
  SELECT *, sum(jobs) OVER (ORDER BY at DESC GROUPS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) >= ${TAIL_JOBS} AS is_left
  FROM (SELECT seqs, at, CASE WHEN org_id = $1::uuid THEN cardinality(seqs) ELSE 0 END AS jobs FROM (
    SELECT org_id, seqs, at FROM millrace.records
    WHERE ${AFTER_POSITION} AND at <= timestamptz 'epoch' + $11::int8 * interval '1 microsecond'
    ORDER BY txid DESC, id DESC LIMIT ${TAIL_RECORDS}) r) r
), unread AS MATERIALIZED (
  SELECT greatest(max(at) FILTER (WHERE is_left AND jobs > 0), CASE WHEN count(*) = ${TAIL_RECORDS} THEN min(at) END) AS at FROM tail
), posted AS MATERIALIZED (
  SELECT p.seqs, p.bin, p.is_last, sum(p.jobs) OVER (ORDER BY p.bin DESC GROUPS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
  FROM (SELECT seqs, jobs, high / ${BIN_US} AS bin, row_number() OVER (ORDER BY high DESC) = least($13::int4, ${CHANGES_READ}) AS is_last
    FROM (SELECT seqs, jobs, high FROM millrace.postings WHERE org_id = $1::uuid AND term = 'changed'
      AND low <= $11::int8 AND high > $14::int8 AND first_seq < $16::int8 AND last_seq > $15::int8
      ORDER BY high DESC LIMIT least($13::int4, ${CHANGES_READ})) q) p
), frontier AS MATERIALIZED (
  SELECT greatest((SELECT (max(bin) + 1) * ${BIN_US} - 1 FROM posted WHERE before >= $13::int4 OR is_last),
    (SELECT (extract(epoch FROM at) * 1000000)::int8 FROM unread)) AS us
), candidates AS MATERIALIZED (
  SELECT DISTINCT seq FROM (
    SELECT seq FROM (SELECT unnest(seqs) AS seq FROM posted WHERE coalesce(before, 0) < $13::int4) p
    WHERE $17::text[] IS NULL OR seq IN (
      SELECT unnest(seqs) FROM millrace.postings WHERE org_id = $1::uuid AND term = ANY ($17 COLLATE "C"))
    UNION ALL SELECT unnest(seqs) FROM tail WHERE jobs > 0 AND is_left IS NOT TRUE) c
)`;

const PROBE = statement(
  'probe_sources',
  `SELECT 'term' AS kind, t.term AS name, (SELECT coalesce(sum(p.jobs), 0) FROM (SELECT jobs FROM millrace.postings
     WHERE org_id = $1::uuid AND term = t.term COLLATE "C" LIMIT ${PROBED_POSTINGS}) p)::float8 AS jobs,
     (SELECT count(*) = ${PROBED_POSTINGS} FROM (SELECT FROM millrace.postings
     WHERE org_id = $1::uuid AND term = t.term COLLATE "C" LIMIT ${PROBED_POSTINGS}) p) AS has_more
   FROM unnest($2::text[]) AS t(term)
   UNION ALL SELECT 'tokens', NULL, (SELECT count(*) FROM (SELECT FROM millrace.ready_jobs LIMIT ${FEW}) r)
     + (SELECT count(*) FROM (SELECT FROM millrace.timers WHERE org_id = $1::uuid LIMIT ${FEW}) r)
     + (SELECT count(*) FROM (SELECT FROM millrace.waiting WHERE org_id = $1::uuid LIMIT ${FEW}) r)
     + (SELECT coalesce(sum(cardinality(seqs)), 0) FROM millrace.claims WHERE org_id = $1::uuid), false WHERE $3::boolean
   UNION ALL SELECT 'changed', NULL, coalesce(sum(p.jobs), 0), count(*) = ${PROBED_POSTINGS} FROM (SELECT jobs FROM millrace.postings
     WHERE org_id = $1::uuid AND term = 'changed' AND high > $4::int8 ORDER BY high LIMIT ${PROBED_POSTINGS}) p
     HAVING $4::int8 IS NOT NULL
   UNION ALL SELECT 'tail', NULL, coalesce(sum(cardinality(r.seqs)) FILTER (WHERE ${willBePosted('$2', '$4')}), 0), count(*) = ${TAIL_RECORDS}
     FROM ${TAIL}`,
);

type ProbeRow = { kind: 'term' | 'tokens' | 'changed' | 'tail'; name: string; jobs: number; has_more: boolean };

const RARE_ENDS: ReadonlySet<JobState> = new Set<JobState>(['failed', 'dead_letter', 'cancelled']);

/** The terms that every job which matches has a posting under, if they are of use to sift what changed. */
export const siftingTerms = ({ terms, tokens, estimate }: Source): readonly string[] | null =>
  terms.length > 0 && !tokens && estimate <= SIFTABLE ? terms : null;

export const isFew = (source: Source): boolean => source.estimate <= FEW;

/** The source that names the fewest jobs; all jobs where no filter names few enough to be worth it. */
export async function chooseSource(db: Queryable, orgId: string, filter: JobFilter): Promise<Source> {
  if (filter.ids !== undefined) return named({ terms: [], estimate: filter.ids.length });
  const byFilter = termsOf(filter).filter((terms) => terms.length <= MAX_TERMS);
  const live = filter.states !== undefined && !filter.states.includes('completed');
  const changedAfterUs = filter.updatedAfter === undefined ? null : filter.updatedAfter.getTime() * 1_000;
  const terms = [...byFilter.flat(), ...rareTerms(filter.states ?? [])];
  const rows = await run<ProbeRow>(db, PROBE, [orgId, terms, live, changedAfterUs]);
  // Too much is not posted yet to look it up: the jobs themselves, in order, leave nothing out.
  if (rows.some((row) => row.kind === 'tail' && (row.has_more || row.jobs > TAIL_JOBS))) return ALL_JOBS;
  const count = ({ jobs, has_more }: ProbeRow) => (has_more ? Math.max(jobs, FEW + 1) : jobs);
  const inTerms = new Map(rows.filter((row) => row.kind === 'term').map((row) => [row.name, count(row)]));
  const sizeOf = (terms: readonly string[]) => terms.reduce((sum, term) => sum + (inTerms.get(term) ?? 0), 0);
  const sources = byFilter.map((each) => named({ terms: each, estimate: sizeOf(each) }));
  const tokens = rows.find((row) => row.kind === 'tokens');
  if (tokens !== undefined && filter.states !== undefined) sources.push(byState(filter.states, tokens.jobs, sizeOf));
  const changed = rows.find((row) => row.kind === 'changed');
  if (changed !== undefined && count(changed) <= FEW) sources.push(named({ changedAfterUs, estimate: changed.jobs }));
  return sources.reduce((best, source) => (source.estimate < best.estimate ? source : best), ALL_JOBS);
}

/** One list of terms for each filter that has some: a job that matches has a posting under one of each. */
function termsOf(filter: JobFilter): string[][] {
  return [
    ...(filter.types === undefined ? [] : [filter.types.map((type) => `type:${type}`)]),
    ...(filter.priorities === undefined ? [] : [filter.priorities.map((name) => `priority:${priorityNumber(name)}`)]),
    ...Object.entries(filter.tags ?? {}).map(([name, value]) => [`tag:${name}=${value}`]),
  ];
}

const rareTerms = (states: readonly JobState[]): string[] =>
  states.filter((state) => RARE_ENDS.has(state)).map((state) => `state:${state}`);

function byState(states: readonly JobState[], tokens: number, sizeOf: (terms: readonly string[]) => number): Source {
  const terms = rareTerms(states);
  if (states.every((state) => RARE_ENDS.has(state))) return named({ terms, estimate: sizeOf(terms) });
  return tokens < FEW ? named({ terms, tokens: true, estimate: sizeOf(terms) + tokens }) : ALL_JOBS;
}

function named(source: Partial<Source>): Source {
  return { ...ALL_JOBS, kind: 'named', ...source };
}
