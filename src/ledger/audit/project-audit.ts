import { randomUUID } from 'node:crypto';
import type pg from 'pg';
import type { AuditRow } from '../../core/governance/audit-row.ts';
import { byteaArray, int4Array, int8Array, jsonArray, textArray, uuidArray } from '../driver/binary-array.ts';
import { inTransaction } from '../driver/database.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';
import { isDataError, type SetAside, writeSetAside } from '../history/set-aside.ts';
import { type ChainEnd, chained, entriesOf } from './audit-entries.ts';
import { type AuditedJobs, type AuditLimits, type AuditPage, hasUnaudited, holdAudit, readAuditPage } from './audit-page.ts';

/** The limits of a page, so that its memory and its statements do not depend on the size of a transaction. */
const PAGE: AuditLimits = { records: 1_024, events: 2_000, actions: 1_000 };
/** Longer than a page takes. After a process dies, the others wait this long. */
const HOLD_MS = 5_000;
const SHRINK_BITS = 3;
const HOLDER = randomUUID();

const ENDS = statement(
  'audit_chain_ends',
  `SELECT org_id AS "orgId", last_position AS position, encode(last_hash, 'hex') AS hash FROM millrace.audit_chains WHERE org_id = ANY ($1::uuid[])`,
);

const LOCK = statement(
  'lock_audit',
  `SELECT p.name FROM millrace.positions p WHERE p.name = 'audit' AND p.txid = $1::text::xid8 AND p.record_id = $2::int8 AND p.seq = $3::int8
     AND p.n = $4::int4 FOR UPDATE SKIP LOCKED`,
);

const moment = (ms: string): string => `timestamptz 'epoch' + ${ms} * interval '1 ms'`;

// One statement adds the rows to their chains, removes the actions that they came from and moves the position. A position may stay where it
// is while actions are consumed, so the last id is checked as well.
const WRITE = statement(
  'write_audit',
  `WITH state AS (
  UPDATE millrace.audit_state SET last_id = $2::int8, recorded_at = ${moment('$3::float8')},
    max_lag = greatest(max_lag, (SELECT max(${moment('$3::float8')} - (${moment('u.at')})) FROM unnest($7::int8[]) AS u(at)))
  WHERE last_id = $1::int8 RETURNING 1
), input AS MATERIALIZED (
  SELECT u.* FROM state CROSS JOIN unnest($4::int8[], $5::uuid[], $6::int8[], $7::int8[], $8::text[], $9::uuid[], $10::text[], $11::text[],
      $12::text[], $13::text[], $14::text[], $15::uuid[], $16::text[], $17::int4[], $18::json[], $19::bytea[])
    AS u(id, org_id, position, at, event, project_id, actor_type, actor_id, performed_by, request_id, correlation_id, job_id, job_type, attempt,
      details, hash)
), written AS (
  INSERT INTO millrace.audit_rows (id, org_id, position, recorded_at, at, event, project_id, actor_type, actor_id, performed_by, request_id,
    correlation_id, job_id, job_type, attempt, details, hash)
  SELECT id, org_id, position, ${moment('$3::float8')}, ${moment('at')}, event, project_id, actor_type, actor_id, performed_by, request_id,
    correlation_id, job_id, job_type, attempt, details, hash FROM input
), chains AS (
  INSERT INTO millrace.audit_chains AS c (org_id, first_id, anchor_hash, last_position, last_id, last_hash)
  SELECT DISTINCT ON (org_id) org_id, min(id) OVER (PARTITION BY org_id), decode(repeat('00', 32), 'hex'), position, id, hash FROM input
  ORDER BY org_id, position DESC
  ON CONFLICT (org_id) DO UPDATE SET last_position = excluded.last_position, last_id = excluded.last_id, last_hash = excluded.last_hash
), consumed AS (
  DELETE FROM millrace.audit_actions a USING state WHERE a.id = ANY ($20::int8[])
), moved AS (
  UPDATE millrace.projections p SET txid = $21::text::xid8, inside_txid = $21::text::xid8, record_id = $22::int8, seq = $23::int8, n = $24::int4,
    holder = CASE WHEN $25::boolean THEN p.holder END
  FROM state WHERE p.name = 'audit' RETURNING p.name
)
SELECT name, set_config('synchronous_commit', 'off', true) AS flush FROM moved`,
);

/** How old the newest row of a page was when it was recorded. */
const lagOf = (rows: readonly AuditRow[]): number => {
  const last = rows.at(-1);
  return last === undefined ? 0 : last.recordedAt.getTime() - last.at.getTime();
};

export type AuditProjected =
  /** Another process works on the next page, or has just moved the position. */
  { kind: 'busy' } | { kind: 'projected'; rows: number; lagMs: number; hasMore: boolean; setAside: readonly SetAside[] };

/**
 * Adds the next page of events and actions to the audit trail. Any number of processes may call it. A page is read and hashed outside any
 * writing transaction; a short one then writes the rows and moves the position, if no other process has moved it.
 */
export async function projectAudit(pool: pg.Pool, jobs: AuditedJobs, limits: Partial<AuditLimits> = {}): Promise<AuditProjected> {
  if (!(await hasUnaudited(pool))) return { kind: 'projected', rows: 0, lagMs: 0, hasMore: false, setAside: [] };
  if (!(await holdAudit(pool, { holder: HOLDER, forMs: HOLD_MS }))) return { kind: 'busy' };
  return projectPage(pool, jobs, { ...PAGE, ...limits });
}

/** A page that fails because of its data is retried with fewer items, until the failing one is alone and can be set aside. */
async function projectPage(pool: pg.Pool, jobs: AuditedJobs, limits: AuditLimits): Promise<AuditProjected> {
  let page: AuditPage | undefined;
  try {
    page = await readPage(pool, jobs, limits);
    const rows = chained(entriesOf(page), { ...page, ends: await chainEnds(pool, page) });
    return (await writePage(pool, page, rows))
      ? { kind: 'projected', rows: rows.length, lagMs: lagOf(rows), hasMore: page.hasMore, setAside: [] }
      : { kind: 'busy' };
  } catch (error) {
    if (!isDataError(error)) throw error;
    const { events, actions, records } = limits;
    if (events > 1 || actions > 1)
      return projectPage(pool, jobs, { records, events: events >> SHRINK_BITS || 1, actions: actions >> SHRINK_BITS || 1 });
    if (page === undefined) throw error;
    return stepOver(pool, page, error);
  }
}

// Forces index lookups, as on the hot path: the joined tables are large, and the page is small.
const PLANNER = `SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off;
  SET LOCAL plan_cache_mode = force_generic_plan; SET LOCAL jit = off`;

const readPage = (pool: pg.Pool, jobs: AuditedJobs, limits: AuditLimits): Promise<AuditPage> =>
  inTransaction(pool, async (client) => {
    await client.query(PLANNER);
    return readAuditPage(client, jobs, limits);
  });

async function chainEnds(db: Queryable, { actions, events }: AuditPage): Promise<Map<string, ChainEnd>> {
  const orgIds = new Set([...actions, ...events].map(({ orgId }) => orgId));
  if (orgIds.size === 0) return new Map();
  const rows = await run<ChainEnd & { orgId: string }>(db, ENDS, [uuidArray([...orgIds])]);
  return new Map(rows.map(({ orgId, position, hash }) => [orgId, { position, hash }]));
}

/** Returns false, and writes nothing, if another process has taken the page. */
const writePage = (pool: pg.Pool, page: AuditPage, rows: readonly AuditRow[]): Promise<boolean> =>
  inTransaction(pool, (client) => writeRows(client, page, rows));

async function writeRows(client: pg.ClientBase, { from, to, lastId, recordedAt, actions, hasMore }: AuditPage, rows: readonly AuditRow[]) {
  if ((await run(client, LOCK, [String(from.txid), from.recordId, from.seq, from.n])).length === 0) return false;
  const written = await run(client, WRITE, [
    lastId,
    lastId + rows.length,
    (rows[0]?.recordedAt ?? recordedAt).getTime(),
    int8Array(rows.map(({ id }) => id)),
    uuidArray(rows.map(({ orgId }) => orgId)),
    int8Array(rows.map(({ position }) => position)),
    int8Array(rows.map(({ at }) => at.getTime())),
    textArray(rows.map(({ event }) => event)),
    uuidArray(rows.map(({ projectId }) => projectId)),
    textArray(rows.map(({ actorType }) => actorType)),
    textArray(rows.map(({ actorId }) => actorId)),
    textArray(rows.map(({ performedBy }) => performedBy)),
    textArray(rows.map(({ requestId }) => requestId)),
    textArray(rows.map(({ correlationId }) => correlationId)),
    uuidArray(rows.map(({ jobId }) => jobId)),
    textArray(rows.map(({ jobType }) => jobType)),
    int4Array(rows.map(({ attempt }) => attempt)),
    jsonArray(rows.map(({ details }) => details)),
    byteaArray(rows.map(({ hash }) => Buffer.from(hash, 'hex'))),
    int8Array(actions.map(({ id }) => id)),
    String(to.txid),
    to.recordId,
    to.seq,
    to.n,
    hasMore,
  ]);
  return written.length === 1;
}

/** Writes what it can of a page with one action and one event. An action that can be written leaves the event to the next round. */
async function stepOver(pool: pg.Pool, page: AuditPage, error: unknown): Promise<AuditProjected> {
  if (page.actions.length === 0 || page.events.length === 0) return setAside(pool, page, error);
  const action: AuditPage = { ...page, events: [], to: page.from, hasMore: true };
  try {
    const rows = chained(entriesOf(action), { ...action, ends: await chainEnds(pool, action) });
    return (await writePage(pool, action, rows))
      ? { kind: 'projected', rows: rows.length, lagMs: lagOf(rows), hasMore: true, setAside: [] }
      : { kind: 'busy' };
  } catch (cause) {
    if (!isDataError(cause)) throw cause;
    return setAside(pool, action, cause);
  }
}

/** Skips the one event, or the one action, that cannot be written. `set_aside` says which; an action is kept there as text. */
async function setAside(pool: pg.Pool, page: AuditPage, error: unknown): Promise<AuditProjected> {
  const items = [
    ...page.actions.map((action) => ({ orgId: action.orgId, recordId: action.id, seq: null, n: null, error: withAction(error, action) })),
    ...page.events.map(({ orgId, recordId, seq, n }) => ({ orgId, recordId, seq, n, error })),
  ].map((item): SetAside => ({ ...item, projection: 'audit', webhookId: null }));
  const isMoved = await inTransaction(pool, async (client) => {
    if (!(await writeRows(client, page, []))) return false;
    for (const item of items) await writeSetAside(client, item);
    return true;
  });
  return isMoved ? { kind: 'projected', rows: 0, lagMs: 0, hasMore: true, setAside: items } : { kind: 'busy' };
}

const withAction = (error: unknown, action: object): Error =>
  new Error(`${error instanceof Error ? error.message : String(error)}: ${JSON.stringify(action)}`, { cause: error });
