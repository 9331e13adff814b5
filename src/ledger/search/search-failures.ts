import { dictionary } from '../../core/dictionary.ts';
import type { Failure, FailureCategory } from '../../core/failure.ts';
import type { JobState } from '../../core/states.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';
import { type FailurePosition, readFailureCursor, writeFailureCursor } from './failure-cursor.ts';

type FailedState = Extract<JobState, 'failed' | 'dead_letter' | 'retrying'>;

export type FailureFilter = {
  states?: readonly FailedState[];
  categories?: readonly FailureCategory[];
  types?: readonly string[];
  code?: string;
  /** When the job came to its state: from inclusive, to exclusive. */
  from?: Date;
  to?: Date;
};

/** A job that is in a failed state now, with its last attempt if it had one. */
export type FoundFailure = {
  jobId: string;
  type: string;
  state: FailedState;
  failure: Failure;
  failedAt: Date;
  totalAttempts: number;
  attempt: {
    number: number;
    startedAt: Date;
    finishedAt: Date | null;
    workerName: string | null;
    host: string | null;
  } | null;
};

export type FailurePage = { failures: FoundFailure[]; nextCursor: string | null };

export type FailureTally = {
  totalCount: number;
  totalIsEstimate: boolean;
  byCategory: Partial<Record<FailureCategory, number>>;
  byCode: Record<string, number>;
  byType: Record<string, number>;
};

/** Failures that one request looks at. With 15 000 failures, a look at 10 000 of them took 90 ms on two busy cores. */
const MAX_LOOKED = 5_000;

// The failures of the org from the newest, as their index has them.
const looked = ({ where = '', limit }: { where?: string; limit: string }) => `
  SELECT e.org_id, e.job_seq, e.n, e.at, e.to_state FROM millrace.events e
  WHERE e.org_id = $1::uuid AND e.to_state IN ('failed', 'dead_letter', 'retrying')
    AND e.at >= coalesce($2::timestamptz, '-infinity') AND e.at < coalesce($3::timestamptz, 'infinity') ${where}
  ORDER BY e.at DESC, e.job_seq DESC ${limit}`;

// Each job is asked whether that is still its newest event. The OFFSET keeps the planner from joining all jobs first because
// it cannot estimate the filters.
const MATCHED = `CROSS JOIN LATERAL (
    SELECT j.id, j.job_type, j.record_ids, j.last_error FROM millrace.jobs j
    WHERE j.org_id = e.org_id AND j.seq = e.job_seq AND j.event_count = e.n AND j.last_error IS NOT NULL
      AND ($7::text[] IS NULL OR j.job_type = ANY ($7))
      AND ($6::text[] IS NULL OR j.last_error->>'category' = ANY ($6))
      AND ($8::text IS NULL OR j.last_error->>'code' = $8)
    OFFSET 0) j
  WHERE ($5::text[] IS NULL OR e.to_state = ANY ($5::millrace.job_state[]))`;

const cursorAt = (atUs: string) =>
  `coalesce(timestamptz 'epoch' + ${atUs}::int8 * interval '1 microsecond', 'infinity')`;
const after = (atUs: string, seq: string) =>
  `AND e.at <= ${cursorAt(atUs)} AND (e.at, e.job_seq) < (${cursorAt(atUs)}, coalesce(${seq}::int8, 0))`;

const PAGE = statement(
  'search_failures',
  `WITH page AS MATERIALIZED (
  SELECT e.org_id, e.job_seq, e.at, e.to_state, j.id, j.job_type, j.record_ids, j.last_error
  FROM (${looked({ where: after('$10', '$11'), limit: 'LIMIT $4::int4' })}) e ${MATCHED}
  ORDER BY e.at DESC, e.job_seq DESC LIMIT $9::int4 + 1
)
SELECT p.id, p.job_type, p.to_state AS state, p.last_error::text AS last_error, p.at AS failed_at, p.job_seq AS seq,
  (extract(epoch FROM p.at) * 1000000)::int8 AS at_us, coalesce(a.total, 0)::int4 AS total_attempts,
  a.attempt, a.at AS started_at, a.finished_at, w.name AS worker_name, w.host
FROM page p LEFT JOIN LATERAL (
  SELECT h.*, count(*) OVER () AS total FROM (
    SELECT r.n, r.at, r.to_state, r.attempt, r.worker_id, lead(r.at) OVER (ORDER BY r.n) AS finished_at FROM millrace.events r
    WHERE r.record_id = ANY (p.record_ids) AND r.org_id = p.org_id AND r.job_seq = p.job_seq
  ) h WHERE h.to_state = 'running' ORDER BY h.n DESC LIMIT 1
) a ON true LEFT JOIN millrace.workers w ON w.id = a.worker_id
ORDER BY p.at DESC, p.job_seq DESC`,
);

// Where the look of a page ended; nothing when it came to the last failure.
const EDGE = statement(
  'search_failures_edge',
  `SELECT (extract(epoch FROM e.at) * 1000000)::int8 AS at_us, e.job_seq AS seq
  FROM (${looked({ where: after('$5', '$6'), limit: 'LIMIT 1 OFFSET $4::int4 - 1' })}) e`,
);

const TALLY = statement(
  'tally_failures',
  `WITH looked AS MATERIALIZED (${looked({ limit: 'LIMIT $4::int4 + 1' })}
), found AS MATERIALIZED (
  SELECT j.last_error->>'category' AS category, j.last_error->>'code' AS code, j.job_type
  FROM (SELECT * FROM looked LIMIT $4::int4) e ${MATCHED}
)
SELECT 'looked' AS kind, NULL AS name, count(*)::int4 AS jobs FROM looked
UNION ALL SELECT 'found', NULL, count(*)::int4 FROM found
UNION ALL SELECT 'category', category, count(*)::int4 FROM found GROUP BY category
UNION ALL SELECT 'code', code, count(*)::int4 FROM found GROUP BY code
UNION ALL SELECT 'type', job_type, count(*)::int4 FROM found GROUP BY job_type`,
);

type Edge = { at_us: number | string; seq: number | string };

type Row = Edge & {
  id: string;
  job_type: string;
  state: FailedState;
  last_error: string;
  failed_at: Date;
  total_attempts: number;
  attempt: number | null;
  started_at: Date;
  finished_at: Date | null;
  worker_name: string | null;
  host: string | null;
};

export type FailureSearch = {
  filter: FailureFilter;
  limit: number;
  cursor: string | null;
  maxLooked?: number;
};

/**
 * Jobs in a failed state, the newest failure first. One call looks at so many failures and no more: a page may have fewer
 * than asked for, or none, and still a cursor where to go on.
 */
export async function searchFailures(
  db: Queryable,
  orgId: string,
  { filter, limit, cursor, maxLooked = MAX_LOOKED }: FailureSearch,
): Promise<FailurePage> {
  const scope = { orgId, filter };
  const position: FailurePosition | null = cursor === null ? null : readFailureCursor(scope, cursor);
  const from = [position?.atUs ?? null, position?.seq ?? null];
  const within = rangeValues(orgId, filter, maxLooked);
  const rows = await run<Row>(db, PAGE, [...within, ...filterValues(filter), limit, ...from]);
  const shown = rows.slice(0, limit);
  const last = shown.at(-1);
  const [edge] = rows.length > limit ? [last] : await run<Edge>(db, EDGE, [...within, ...from]);
  // Failures that came since the page was read move the edge up; what was shown is not shown again.
  const end = edge !== undefined && last !== undefined && Number(last.at_us) <= Number(edge.at_us) ? last : edge;
  return {
    failures: shown.map(toFailure),
    nextCursor: end === undefined ? null : writeFailureCursor(scope, { atUs: Number(end.at_us), seq: Number(end.seq) }),
  };
}

/** How many there are, by what they have in common, among the newest failures that one call looks at. */
export async function tallyFailures(
  db: Queryable,
  orgId: string,
  { filter, maxLooked = MAX_LOOKED }: Pick<FailureSearch, 'filter' | 'maxLooked'>,
): Promise<FailureTally> {
  type Count = { kind: 'looked' | 'found' | 'category' | 'code' | 'type'; name: string; jobs: number };
  const rows = await run<Count>(db, TALLY, [...rangeValues(orgId, filter, maxLooked), ...filterValues(filter)]);
  const mapOf = (kind: Count['kind']) =>
    dictionary(rows.filter((row) => row.kind === kind).map(({ name, jobs }) => [name, jobs] as const));
  const countOf = (kind: Count['kind']) => rows.find((row) => row.kind === kind)?.jobs ?? 0;
  return {
    totalCount: countOf('found'),
    totalIsEstimate: countOf('looked') > maxLooked,
    byCategory: mapOf('category'),
    byCode: mapOf('code'),
    byType: mapOf('type'),
  };
}

/** $1 to $4. */
const rangeValues = (orgId: string, { from, to }: FailureFilter, maxLooked: number): unknown[] => [
  ...[orgId, from ?? null, to ?? null, maxLooked],
];

/** $5 to $8. */
const filterValues = ({ states, categories, types, code }: FailureFilter): unknown[] => [
  ...[states ?? null, categories ?? null, types ?? null, code ?? null],
];

function toFailure(row: Row): FoundFailure {
  const { attempt, started_at, finished_at, worker_name: workerName, host } = row;
  return {
    jobId: row.id,
    type: row.job_type,
    state: row.state,
    failure: JSON.parse(row.last_error) as Failure,
    failedAt: new Date(row.failed_at),
    totalAttempts: row.total_attempts,
    attempt:
      attempt === null
        ? null
        : {
            ...{ number: attempt, startedAt: new Date(started_at), workerName, host },
            finishedAt: finished_at === null ? null : new Date(finished_at),
          },
  };
}
