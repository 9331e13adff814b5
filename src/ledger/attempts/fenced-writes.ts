// What a running handler writes about its own job. Each statement checks the lease and writes, so nothing lands from an attempt that has
// lost the job.
import { type Queryable, run, statement } from '../driver/statement.ts';

// The row lock keeps the lease until the write is done, so no later attempt can start in between and be overwritten. The statement does
// not wait for a lock that others hold, because it would occupy a session of the pool for as long. The caller tries again. A statement
// that is meant for one transaction, named by parameter `transactionId`, writes nothing in another.
const fencedText = (transactionId: string, write: string): string => `WITH place AS MATERIALIZED (
     SELECT ${isInTransaction(transactionId)} AS is_right
   ), owned AS (
     SELECT j.org_id, j.seq FROM millrace.jobs j
     WHERE j.org_id = $1::uuid AND j.seq = $2::int8 AND j.lease_seq = $3::int8 AND j.state = 'running'
       AND (SELECT is_right FROM place)
     FOR NO KEY UPDATE NOWAIT
   ), written AS (
     ${write}
     RETURNING org_id, seq
   )
   SELECT p.is_right, w.seq IS NOT NULL AS has_landed, c.is_forced
   FROM place p LEFT JOIN written w ON true
   LEFT JOIN millrace.cancel_requests c ON c.org_id = w.org_id AND c.seq = w.seq`;

/** Whether the session is in the transaction of a parameter. A null parameter stands for any transaction. */
export const isInTransaction = (id: string): string => `${id}::xid8 IS NULL OR (${id}::xid8 = pg_current_xact_id_if_assigned()) IS TRUE`;

const REPORT = statement(
  'report_progress',
  fencedText(
    '$6',
    `INSERT INTO millrace.progress AS p (org_id, seq, percent, message, updated_at)
     SELECT org_id, seq, $4::int2, $5, millrace.clock() FROM owned
     ON CONFLICT (org_id, seq) DO UPDATE SET percent = excluded.percent, message = excluded.message,
       updated_at = excluded.updated_at`,
  ),
);

const SAVE = statement(
  'save_checkpoint',
  fencedText(
    '$5',
    `INSERT INTO millrace.checkpoints AS p (org_id, seq, state, lease_seq, saved_at)
     SELECT org_id, seq, $4::bytea, $3::int8, millrace.clock() FROM owned
     ON CONFLICT (org_id, seq) DO UPDATE SET state = excluded.state, lease_seq = excluded.lease_seq, saved_at = excluded.saved_at`,
  ),
);

const LOAD = statement(
  'load_checkpoint',
  `SELECT p.is_right, c.state, c.lease_seq, c.saved_at
   FROM (SELECT ${isInTransaction('$3')} AS is_right) p
   LEFT JOIN millrace.checkpoints c ON c.org_id = $1::uuid AND c.seq = $2::int8`,
);

// The lock keeps every other writer from the job until the caller's transaction ends. It is the weakest lock that does so: rows that
// reference the job can still be inserted.
const ASSERT = statement(
  'assert_owned',
  `SELECT pg_current_xact_id()::text AS transaction_id FROM millrace.jobs
   WHERE org_id = $1 AND seq = $2 AND lease_seq = $3 AND state = 'running' FOR NO KEY UPDATE`,
);

// Like the writes above, it does not wait for a lock that others hold.
const HOLD = statement(
  'hold_attempt',
  `WITH place AS MATERIALIZED (
     SELECT ${isInTransaction('$4')} AS is_right
   ), owned AS (
     SELECT j.seq FROM millrace.jobs j
     WHERE j.org_id = $1::uuid AND j.seq = $2::int8 AND j.lease_seq = $3::int8 AND j.state = 'running' AND (SELECT is_right FROM place)
     FOR NO KEY UPDATE NOWAIT
   )
   SELECT p.is_right, EXISTS (SELECT FROM owned) AS has_landed FROM place p`,
);

const CATEGORY = statement('job_category', 'SELECT category FROM millrace.jobs WHERE org_id = $1::uuid AND seq = $2::int8');

type Lease = { orgId: string; seq: number; leaseSeq: number };
type FencedRow = { is_right: boolean; has_landed: boolean; is_forced: boolean | null };

export type FencedAnswer = {
  landed: boolean;
  cancelRequested: 'soft' | 'force' | null;
  /** Nothing was read or written, because the transaction that the statement was meant for has ended. */
  transactionEnded?: true;
};

/** With `transactionId` it reports only if `db` is still in that transaction. */
export async function reportProgress(
  db: Queryable,
  { orgId, seq, leaseSeq, percent, message }: Lease & { percent: number; message: string | null },
  transactionId: string | null = null,
): Promise<FencedAnswer> {
  return toFencedAnswer(await run<FencedRow>(db, REPORT, [orgId, seq, leaseSeq, percent, message, transactionId]));
}

/** With `transactionId` it saves only if `db` is still in that transaction. */
export async function saveCheckpoint(
  db: Queryable,
  { orgId, seq, leaseSeq, state }: Lease & { state: Uint8Array },
  transactionId: string | null = null,
): Promise<FencedAnswer> {
  const bytes = Buffer.from(state.buffer, state.byteOffset, state.byteLength);
  return toFencedAnswer(await run<FencedRow>(db, SAVE, [orgId, seq, leaseSeq, bytes, transactionId]));
}

function toFencedAnswer(rows: FencedRow[]): FencedAnswer {
  const { is_right, has_landed, is_forced } = rows[0] as FencedRow;
  const cancelRequested = is_forced === null ? null : is_forced ? 'force' : 'soft';
  const answer = { landed: has_landed, cancelRequested } as const;
  return is_right ? answer : { ...answer, transactionEnded: true };
}

type FoundCheckpoint = {
  checkpoint: { state: Uint8Array; leaseSeq: number; savedAt: Date } | null;
  transactionEnded?: true;
};

type CheckpointRow = { is_right: boolean; state: Buffer | null; lease_seq: number; saved_at: Date };

/** The checkpoint of the newest attempt that saved one. A transaction also finds what it saved itself. */
export async function loadCheckpoint(
  db: Queryable,
  { orgId, seq }: { orgId: string; seq: number },
  transactionId: string | null = null,
): Promise<FoundCheckpoint> {
  const rows = await run<CheckpointRow>(db, LOAD, [orgId, seq, transactionId]);
  const { is_right, state, lease_seq, saved_at } = rows[0] as CheckpointRow;
  if (!is_right) return { checkpoint: null, transactionEnded: true };
  if (state === null) return { checkpoint: null };
  const checkpoint = { state: new Uint8Array(state), leaseSeq: Number(lease_seq), savedAt: new Date(saved_at) };
  return { checkpoint };
}

/** Holds the job of an attempt until the transaction of `db` ends. `landed`: the attempt still has it. */
export async function holdAttempt(
  db: Queryable,
  { orgId, seq, leaseSeq }: Lease,
  transactionId: string | null,
): Promise<{ landed: boolean; transactionEnded?: true }> {
  const [row] = await run<{ is_right: boolean; has_landed: boolean }>(db, HOLD, [orgId, seq, leaseSeq, transactionId]);
  const { is_right, has_landed } = row as { is_right: boolean; has_landed: boolean };
  return is_right ? { landed: has_landed } : { landed: false, transactionEnded: true };
}

/** The category that a job was submitted with. */
export async function jobCategory(db: Queryable, { orgId, seq }: { orgId: string; seq: number }): Promise<string | null> {
  const [row] = await run<{ category: string | null }>(db, CATEGORY, [orgId, seq]);
  return row?.category ?? null;
}

/** Returns the id of the transaction of `client`, which holds the job until it ends, or null if the attempt has lost the job. */
export async function assertOwned(client: Queryable, { orgId, seq, leaseSeq }: Lease): Promise<string | null> {
  const [row] = await run<{ transaction_id: string }>(client, ASSERT, [orgId, seq, leaseSeq]);
  return row?.transaction_id ?? null;
}
