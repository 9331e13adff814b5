// Records, positions and webhooks contain transaction numbers. A dump keeps these numbers, but the cluster that it is restored into has
// its own counter: a new record could look older than records that were read long ago. So the ledger adds an offset to the counter.
// When it finds that its rows were restored, it raises the offset until new numbers exceed all old ones (decision 0023).
import type pg from 'pg';
import { RESTORE_LOCK, waitForLock } from './advisory-locks.ts';
import { inTransaction } from './database.ts';
import { NEXT_TXID } from './horizon.ts';
import { run, statement } from './statement.ts';

/** Added to the highest restored number. A reader of events may have seen higher numbers, from events after the dump. */
const GAP = 2 ** 32;

// The row contains the number of the transaction that wrote it. A restored row was written by the restore, while a copy of the files
// keeps the writer. A position that no transaction has reached yet is a second sign of a restore.
const CHECK = statement(
  'check_cluster',
  `SELECT coalesce(c.xmin = c.written_by::xid AND c.table_oid = 'millrace.cluster'::regclass, false) AS is_original,
     (SELECT max(txid) FROM millrace.projections) > ${NEXT_TXID} AS is_ahead,
     coalesce(c.txid_offset, 0) <> millrace.txid_offset() AS is_mixed
   FROM (SELECT) one LEFT JOIN millrace.cluster c ON true`,
);

const LOCK = statement('lock_cluster', `SELECT ${waitForLock(RESTORE_LOCK)}`);

const HIGHEST = statement(
  'highest_txid',
  `SELECT greatest((SELECT max(txid) FROM millrace.projections), (SELECT txid FROM millrace.records ORDER BY txid DESC LIMIT 1),
     (SELECT greatest(max(since_txid), max(filter_txid)) FROM millrace.webhooks), ${NEXT_TXID})::text::int8 AS txid,
     millrace.txid_offset() AS txid_offset`,
);

// A process that was connected during the restore may have written before the restore was noticed. Its records were written by the
// transaction that they name, and restored records were not.
const isWriter = (txid: string, row: string): string =>
  `CASE WHEN ${txid}::text::int8 >= millrace.txid_offset()
     THEN ${row}.xmin = ((${txid}::text::int8 - millrace.txid_offset())::text::xid8)::xid ELSE false END`;

const writtenHere = (txid: string, row: string): string => `${txid} < ${NEXT_TXID} AND ${isWriter(txid, row)}`;

// A tool that rewrites tables also changes the writer of the row. In that case the oldest and the newest record that were read still
// have their writers.
const readRecord = (direction: 'ASC' | 'DESC'): string => `(SELECT ${isWriter('r.txid', 'r')} AS is_own FROM millrace.records r
     WHERE r.txid < (SELECT min(txid) FROM millrace.projections) ORDER BY r.txid ${direction} LIMIT 1)`;

const CONTINUED = statement(
  'cluster_is_continued',
  `SELECT coalesce(bool_and(r.is_own), false) AS is_continued FROM (${readRecord('ASC')} UNION ALL ${readRecord('DESC')}) r`,
);

const RENUMBER_RECORDS = statement(
  'renumber_records',
  `UPDATE millrace.records r SET txid = (r.txid::text::int8 + $1::int8)::text::xid8 WHERE ${writtenHere('r.txid', 'r')}`,
);

const RENUMBER_WEBHOOKS = statement(
  'renumber_webhooks',
  `UPDATE millrace.webhooks w SET since_txid = (w.since_txid::text::int8 + $1::int8)::text::xid8,
     filter_txid = (w.filter_txid::text::int8 + $1::int8)::text::xid8
   WHERE ${writtenHere('w.since_txid', 'w')} AND w.filter_txid = w.since_txid`,
);

const NOTE = statement(
  'note_cluster',
  `INSERT INTO millrace.cluster (is_only, written_by, table_oid, txid_offset, since)
   VALUES (true, pg_current_xact_id(), 'millrace.cluster'::regclass, $1::int8, now())
   ON CONFLICT (is_only) DO UPDATE SET written_by = excluded.written_by, table_oid = excluded.table_oid,
     txid_offset = excluded.txid_offset, since = excluded.since`,
);

type State = { is_original: boolean; is_ahead: boolean; is_mixed: boolean };

const isWell = ({ is_original, is_ahead, is_mixed }: State): boolean => is_original && !is_ahead && !is_mixed;

/**
 * Detects a ledger that was restored from a dump and gives new transactions numbers above all known ones. Several processes may call it
 * at the same time. Returns true if the ledger had been restored.
 */
export async function recogniseRestore(pool: pg.Pool): Promise<boolean> {
  const [state] = await run<State>(pool, CHECK);
  if (state === undefined || isWell(state)) return false;
  return inTransaction(pool, renumber, { mayRepeat: true });
}

async function renumber(client: pg.PoolClient): Promise<boolean> {
  await run(client, LOCK);
  // A statement that waits for this lock is planned again after it, with the new offset.
  await client.query('LOCK TABLE millrace.records, millrace.webhooks IN SHARE ROW EXCLUSIVE MODE');
  const [state] = await run<State>(client, CHECK);
  if (state === undefined || isWell(state)) return false;
  const [highest] = await run<{ txid: number; txid_offset: number }>(client, HIGHEST);
  if (highest === undefined) return false;
  if (!state.is_ahead && !state.is_mixed && (await isContinued(client))) {
    await run(client, NOTE, [highest.txid_offset]);
    return false;
  }
  const offset = highest.txid + GAP;
  if (!state.is_original) {
    await run(client, RENUMBER_RECORDS, [offset - highest.txid_offset]);
    await run(client, RENUMBER_WEBHOOKS, [offset - highest.txid_offset]);
  }
  await replaceFunctions(client, offset);
  await run(client, NOTE, [offset]);
  return true;
}

const isContinued = async (client: pg.PoolClient): Promise<boolean> =>
  (await run<{ is_continued: boolean }>(client, CONTINUED))[0]?.is_continued === true;

// DDL takes no parameters. The offset is a number that this program computed.
async function replaceFunctions(client: pg.PoolClient, offset: number): Promise<void> {
  const text = BigInt(offset).toString();
  await client.query(`CREATE OR REPLACE FUNCTION millrace.txid_offset() RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE
    AS 'SELECT ${text}::bigint'`);
  await client.query(`CREATE OR REPLACE FUNCTION millrace.txid() RETURNS xid8 LANGUAGE sql STABLE
    AS 'SELECT (pg_catalog.pg_current_xact_id()::text::int8 + ${text})::text::xid8'`);
}
