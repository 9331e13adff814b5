import type pg from 'pg';
import { SYSTEM_ORG_ID } from '../../core/delivery-policy.ts';
import { inTransaction } from '../driver/database.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';
import { type OrgTable, tablesToErase } from './org-tables.ts';
import { PRUNE_PLANNER } from './prune.ts';

/** How many rows a step removes from a table with an index, and how many pages it reads of another one: 2 MB. */
const STEP_ROWS = 1_000;
const STEP_PAGES = 256;
/** How long handlers of running jobs may react to the request to stop. After that their jobs are removed, and their writes are refused. */
const HANDLER_GRACE_MS = 30_000;

const BEGIN = statement(
  'begin_erasures',
  `INSERT INTO millrace.org_erasures (org_id, slug, requested_by, requested_at, started_at, next_at)
   SELECT id, slug, deleting_by, deleting_at, millrace.clock(), millrace.clock() FROM millrace.orgs
   WHERE deleting_at IS NOT NULL AND id <> '${SYSTEM_ORG_ID}' ON CONFLICT (org_id) DO NOTHING`,
);

const DUE = statement(
  'due_erasures',
  `SELECT org_id AS "orgId", ended_at IS NOT NULL AS "isEnded",
     started_at <= millrace.clock() - $2::float8 * interval '1 ms' AS "isGraceOver"
   FROM millrace.org_erasures WHERE next_at <= millrace.clock() ORDER BY next_at, org_id LIMIT $1::int4`,
);

export type DueErasure = { readonly orgId: string; readonly isEnded: boolean; readonly isGraceOver: boolean };

/** Notes the orgs that somebody asked to delete, and returns those whose rows are to be removed now. */
export async function dueErasures(db: Queryable, limit: number): Promise<DueErasure[]> {
  await run(db, BEGIN);
  return run<DueErasure>(db, DUE, [limit, HANDLER_GRACE_MS]);
}

// A snapshot whose oldest transaction is younger has seen all that was written before. A number of another cluster, after a restore, is
// higher than all of this one.
const LOCK = statement(
  'lock_erasure',
  `SELECT step, page, pass_found AS "passFound", pass_is_late AS "passIsLate",
     pg_snapshot_xmin(s) > begin_txid OR pg_snapshot_xmax(s) < begin_txid AS "isLate",
     started_at <= millrace.clock() - ${HANDLER_GRACE_MS} * interval '1 ms' AS "isGraceOver"
   FROM millrace.org_erasures CROSS JOIN pg_current_snapshot() s WHERE org_id = $1::uuid FOR UPDATE OF org_erasures SKIP LOCKED`,
);

const SAVE = statement(
  'save_erasure',
  `UPDATE millrace.org_erasures SET step = $2::text, page = $3::int8, pass_found = $4::int8, pass_is_late = $5::bool,
     rows_removed = rows_removed + $6::int8, jobs_removed = jobs_removed + $7::int8 WHERE org_id = $1::uuid`,
);

type Place = {
  step: string | null;
  page: number;
  passFound: number;
  passIsLate: boolean;
  isLate: boolean;
  isGraceOver: boolean;
};

/** `isBlocked`: the step cannot go on to the next table. */
type Chunk = { readonly found: number; readonly removed: number; readonly nextPage: number | null; readonly isBlocked?: boolean };

/**
 * `removed`: there may be more rows. `clean`: a pass has found nothing, and nothing can appear that was written before it. `waiting`:
 * rows are held, or a transaction from before the deletion is open. `busy`: another process has the org.
 */
export type EraseStep = { readonly kind: 'removed' | 'clean' | 'waiting' | 'busy'; readonly rows: number };

/** Removes a bounded number of the rows of an org. The same transaction notes how far it came, so it continues there after a crash. */
export async function eraseStep(pool: pg.Pool, orgId: string): Promise<EraseStep> {
  return inTransaction(pool, async (client) => {
    await client.query(PRUNE_PLANNER);
    const [place] = await run<Place>(client, LOCK, [orgId]);
    if (place === undefined) return { kind: 'busy', rows: 0 };
    const isNewPass = place.step === null;
    // The last pass found nothing. The next one is useful when the transactions from before have ended.
    if (isNewPass && place.passFound === 0 && !place.isLate) return { kind: 'waiting', rows: 0 };
    const passIsLate = isNewPass ? place.isLate : place.passIsLate;
    const done = await removeSome(client, { orgId, place: isNewPass ? { ...place, passFound: 0 } : place });
    const { next, page, passFound, rows, jobs } = done;
    await run(client, SAVE, [orgId, next?.name ?? null, page, passFound, passIsLate, rows, jobs]);
    if (next !== undefined) return { kind: done.isBlocked ? 'waiting' : 'removed', rows };
    return { kind: passFound === 0 && passIsLate ? 'clean' : 'waiting', rows };
  });
}

type Done = {
  /** The table to continue with; undefined: the pass is over. */
  readonly next: OrgTable | undefined;
  readonly page: number;
  readonly passFound: number;
  readonly rows: number;
  readonly jobs: number;
  readonly isBlocked: boolean;
};

/** Goes from table to table until rows were removed or enough pages were read. */
async function removeSome(client: pg.PoolClient, { orgId, place }: { orgId: string; place: Place }): Promise<Done> {
  const tables = await tablesToErase(client);
  const found = tables.findIndex(({ name }) => name === place.step);
  // A table of a pass may be gone, such as the partition of a day. Then the pass begins again, and is not the last.
  let passFound = place.passFound + (place.step !== null && found === -1 ? 1 : 0);
  let at = Math.max(0, found);
  let page = found === -1 ? 0 : place.page;
  for (let read = 0; ; ) {
    const table = tables[at] as OrgTable;
    const chunk = await removeChunk(client, { orgId, table, page, isGraceOver: place.isGraceOver });
    const { removed: rows, isBlocked = false } = chunk;
    passFound += chunk.found;
    read += table.isIndexed ? 1 : Math.min(STEP_PAGES, table.pages - page);
    if (chunk.nextPage === null && !isBlocked) at++;
    page = chunk.nextPage ?? 0;
    const next = tables[at];
    if (rows > 0 || isBlocked || read >= STEP_PAGES || next === undefined) {
      return { next, page, passFound, rows, jobs: table.name === 'jobs' ? rows : 0, isBlocked };
    }
  }
}

type ChunkParams = { orgId: string; table: OrgTable; page: number; isGraceOver: boolean };

function removeChunk(client: pg.PoolClient, params: ChunkParams): Promise<Chunk> {
  if (params.table.name === 'jobs') return removeJobs(client, params);
  return params.table.isIndexed ? removeIndexed(client, params) : removePages(client, params);
}

const HAS_JOBS = statement('org_has_jobs', 'SELECT 1 AS one FROM millrace.jobs WHERE org_id = $1::uuid LIMIT 1');

/** Jobs whose handlers run are left until the grace is over, and with them the requests to stop. */
async function removeJobs(client: pg.PoolClient, { orgId, table, isGraceOver }: ChunkParams): Promise<Chunk> {
  const which = isGraceOver ? '' : ' AND worker_id IS NULL';
  const text = removalText(
    table,
    `SELECT ctid AS tid FROM millrace.jobs WHERE org_id = $1::uuid${which} ORDER BY org_id, seq LIMIT ${STEP_ROWS}`,
  );
  const { rows }: Counts = await client.query({ text, values: [orgId] });
  const { found, removed } = rows[0] as Counts['rows'][0];
  if (removed > 0 && found === STEP_ROWS) return { found, removed, nextPage: 0 };
  const isLeft = (await run(client, HAS_JOBS, [orgId])).length > 0;
  return { found: found + (isLeft ? 1 : 0), removed, nextPage: null, isBlocked: isLeft && !isGraceOver };
}

// The names of tables come from the catalogue of the database and not from a user. They are quoted all the same.
const quoted = ({ name }: OrgTable): string => `millrace."${name.replaceAll('"', '""')}"`;

// By their places and not by a key: with a key, and a plan from when the table was small, PostgreSQL compared each of 1 000 jobs with all
// jobs of the org (measured with 12 000 jobs: more than 10 s instead of 20 ms).
const removalText = (table: OrgTable, found: string): string => `WITH found AS MATERIALIZED (${found}
   ), locked AS MATERIALIZED (
     SELECT t.ctid AS tid FROM ${quoted(table)} t WHERE t.ctid = ANY (ARRAY(SELECT tid FROM found)) AND t.org_id = $1::uuid FOR UPDATE SKIP LOCKED
   ), gone AS (
     DELETE FROM ${quoted(table)} WHERE ctid = ANY (ARRAY(SELECT tid FROM locked)) RETURNING 1
   )
   SELECT (SELECT count(*) FROM found)::int4 AS found, (SELECT count(*) FROM gone)::int4 AS removed`;

type Counts = { rows: { found: number; removed: number }[] };

async function removeIndexed(client: pg.PoolClient, { orgId, table }: ChunkParams): Promise<Chunk> {
  const text = removalText(table, `SELECT ctid AS tid FROM ${quoted(table)} WHERE org_id = $1::uuid LIMIT ${STEP_ROWS}`);
  const { rows }: Counts = await client.query({ text, values: [orgId] });
  const { found, removed } = rows[0] as Counts['rows'][0];
  return { found, removed, nextPage: found === STEP_ROWS && removed > 0 ? 0 : null };
}

async function removePages(client: pg.PoolClient, { orgId, table, page }: ChunkParams): Promise<Chunk> {
  const end = page + STEP_PAGES;
  const text = removalText(
    table,
    `SELECT ctid AS tid FROM ${quoted(table)} WHERE ctid >= $2::text::tid AND ctid < $3::text::tid AND org_id = $1::uuid`,
  );
  const { rows }: Counts = await client.query({ text, values: [orgId, `(${page},0)`, `(${end},0)`] });
  return { ...(rows[0] as Counts['rows'][0]), nextPage: end < table.pages ? end : null };
}
