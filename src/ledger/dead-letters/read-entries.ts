import type { DeadLetterStatus } from '../../core/governance/dead-letter.ts';
import type { Owner } from '../../core/owner.ts';
import { type CursorScope, invalidCursor, readPageCursor, writePageCursor } from '../driver/page-cursor.ts';
import { type Seal, sealOf } from '../driver/seal.ts';
import { type NamedStatement, namedStatement, type Queryable, run, runNamed, statement } from '../driver/statement.ts';
import { type DeadLetter, ENTRY, type EntryRow, toDeadLetter } from './entry-row.ts';

export type DeadLetterFilter = {
  readonly type?: string;
  /** The origin queue. */
  readonly queue?: string;
  /** The category of the job. */
  readonly category?: string;
  /** The code of the error. */
  readonly code?: string;
  readonly fingerprint?: string;
  readonly projectId?: string;
  /** When the job died: `since` is inclusive, `until` is exclusive. */
  readonly since?: Date;
  readonly until?: Date;
  /** Default: open. */
  readonly status?: DeadLetterStatus | 'all';
};

export type FilterParams = {
  orgId: string;
  ownProject: string | null;
  project: string | null;
  type: string | null;
  queue: string | null;
  category: string | null;
  code: string | null;
  fingerprint: string | null;
  since: Date | null;
  until: Date | null;
};

/** The condition on entry `d` of the whole filter, except its status. */
export const MATCHES = `d.org_id = $orgId::uuid
  AND ($ownProject::uuid IS NULL OR d.project_id = $ownProject) AND ($project::uuid IS NULL OR d.project_id = $project)
  AND ($type::text IS NULL OR d.job_type = $type) AND ($queue::text IS NULL OR d.queue = $queue)
  AND ($category::text IS NULL OR d.category = $category) AND ($code::text IS NULL OR d.code = $code)
  AND ($fingerprint::text IS NULL OR d.fingerprint = $fingerprint)
  AND d.failed_at >= coalesce($since::timestamptz, '-infinity') AND d.failed_at < coalesce($until::timestamptz, 'infinity')`;

export const filterParams = ({ orgId, projectId }: Owner, filter: DeadLetterFilter): FilterParams => ({
  orgId,
  ownProject: projectId,
  project: filter.projectId ?? null,
  type: filter.type ?? null,
  queue: filter.queue ?? null,
  category: filter.category ?? null,
  code: filter.code ?? null,
  fingerprint: filter.fingerprint ?? null,
  since: filter.since ?? null,
  until: filter.until ?? null,
});

/** How many entries one page looks at. A page may be short or empty and still have a cursor. */
const MAX_LOOKED = 20_000;

type PageParams = FilterParams & { limit: number; looked: number; cursorUs: string | null; cursorSeq: number | null };
type Edge = { at_us: string; edge_seq: number | string };
type PageRow = EntryRow & Edge;

const CURSOR_AT = `coalesce(timestamptz 'epoch' + $cursorUs::int8 * interval '1 us', 'infinity')`;
const AFTER = `AND d.failed_at <= ${CURSOR_AT} AND (d.failed_at, d.seq) < (${CURSOR_AT}, coalesce($cursorSeq::int8, 0))`;
const POSITION = `(extract(epoch FROM d.failed_at) * 1000000)::int8::text AS at_us, d.seq AS edge_seq`;

// One statement for each index: of a group, of a status, of all entries. Entries of the org are looked at in the order of that index,
// newest first, and the filters apply to what was looked at. So the cost of a page does not depend on how many entries match.
const lookedText = (
  index: string,
  limit: string,
) => `SELECT d.* FROM millrace.dead_letters d WHERE d.org_id = $orgId::uuid ${index} ${AFTER}
  AND d.failed_at >= coalesce($since::timestamptz, '-infinity') AND d.failed_at < coalesce($until::timestamptz, 'infinity')
  ORDER BY d.failed_at DESC, d.seq DESC ${limit}`;

type Variant = 'all' | 'status' | 'group';
const INDEXES = {
  all: '',
  status: 'AND d.status = $status::text',
  group: 'AND d.status = $status::text AND d.fingerprint = $fingerprint::text',
} as const satisfies Record<Variant, string>;

type Statements = {
  page: NamedStatement<PageParams & { status: string }, PageRow>;
  edge: NamedStatement<PageParams & { status: string }, Edge>;
};

const statementsOf = (variant: Variant): Statements => ({
  page: namedStatement(
    `list_dead_letters_${variant}`,
    `SELECT ${ENTRY}, ${POSITION} FROM (${lookedText(INDEXES[variant], 'LIMIT $looked::int4')}) d WHERE ${MATCHES}
     ORDER BY d.failed_at DESC, d.seq DESC LIMIT $limit::int4 + 1`,
  ),
  edge: namedStatement(
    `list_dead_letters_${variant}_edge`,
    `SELECT ${POSITION} FROM (${lookedText(INDEXES[variant], 'LIMIT 1 OFFSET $looked::int4 - 1')}) d`,
  ),
});

const STATEMENTS: Readonly<Record<Variant, Statements>> = {
  all: statementsOf('all'),
  status: statementsOf('status'),
  group: statementsOf('group'),
};

export type DeadLetterPage = { entries: DeadLetter[]; nextCursor: string | null };

/** Returns entries, newest first. */
export async function listEntries(
  db: Queryable,
  owner: Owner,
  { filter, limit, cursor, maxLooked = MAX_LOOKED }: { filter: DeadLetterFilter; limit: number; cursor: string | null; maxLooked?: number },
): Promise<DeadLetterPage> {
  const { status = 'open' } = filter;
  const scope: CursorScope = { list: 'DEAD_LETTERS', orgId: owner.orgId, filter: { ...filter, status, ownProject: owner.projectId } };
  const seal = await sealOf(db);
  const position = cursor === null ? { cursorUs: null, cursorSeq: null } : readCursor(seal, scope, cursor);
  const params = { ...filterParams(owner, filter), ...position, status, limit, looked: maxLooked };
  const { page, edge } = STATEMENTS[status === 'all' ? 'all' : filter.fingerprint === undefined ? 'status' : 'group'];
  const rows = await runNamed(db, page, params);
  const shown = rows.slice(0, limit);
  const [end] = rows.length > limit ? [shown.at(-1)] : await runNamed(db, edge, params);
  return {
    entries: shown.map(toDeadLetter),
    nextCursor: end === undefined ? null : writePageCursor(seal, scope, [end.at_us, Number(end.edge_seq)]),
  };
}

function readCursor(seal: Seal, scope: CursorScope, cursor: string): { cursorUs: string; cursorSeq: number } {
  const [atUs, seq] = readPageCursor(seal, scope, cursor);
  if (typeof atUs !== 'string' || !/^-?\d{1,18}$/.test(atUs) || !Number.isSafeInteger(seq)) throw invalidCursor();
  return { cursorUs: atUs, cursorSeq: seq as number };
}

const GET = statement(
  'get_dead_letter',
  `SELECT ${ENTRY} FROM millrace.dead_letters d WHERE d.job_id = $2::uuid AND (d.org_id = $1::uuid) IS TRUE
     AND ($3::uuid IS NULL OR d.project_id = $3::uuid)`,
);

/** Returns the entry of a job, or null if the owner has none. */
export async function getEntry(db: Queryable, { orgId, projectId }: Owner, jobId: string): Promise<DeadLetter | null> {
  const [row] = await run<EntryRow>(db, GET, [orgId, jobId, projectId]);
  return row === undefined ? null : toDeadLetter(row);
}

const GET_OPEN = statement(
  'get_open_dead_letters',
  `SELECT d.job_id FROM millrace.dead_letters d WHERE d.job_id = ANY ($2::uuid[]) AND (d.org_id = $1::uuid) IS TRUE
     AND ($3::uuid IS NULL OR d.project_id = $3::uuid) AND d.status = 'open'`,
);

/** Returns those of the jobs that have an open entry. */
export async function getEntries(db: Queryable, { orgId, projectId }: Owner, jobIds: readonly string[]): Promise<string[]> {
  const rows = await run<{ job_id: string }>(db, GET_OPEN, [orgId, jobIds, projectId]);
  return rows.map(({ job_id }) => job_id);
}
