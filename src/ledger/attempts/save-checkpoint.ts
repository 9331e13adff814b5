import { type Queryable, run, statement } from '../driver/statement.ts';
import { type FencedAnswer, type FencedRow, toFencedAnswer } from './report-progress.ts';

// The row lock keeps the lease until the checkpoint is written: no later attempt can start in between and be overwritten.
const SAVE = statement(
  'save_checkpoint',
  `WITH place AS MATERIALIZED (
     SELECT $5::xid8 IS NULL OR ($5::xid8 = pg_current_xact_id_if_assigned()) IS TRUE AS is_right
   ), owned AS (
     SELECT j.org_id, j.seq FROM millrace.jobs j
     WHERE j.org_id = $1::uuid AND j.seq = $2::int8 AND j.lease_seq = $3::int8 AND j.state = 'running'
       AND (SELECT is_right FROM place)
     FOR NO KEY UPDATE NOWAIT
   ), written AS (
     INSERT INTO millrace.checkpoints AS p (org_id, seq, state, lease_seq, saved_at)
     SELECT org_id, seq, $4::bytea, $3::int8, millrace.clock() FROM owned
     ON CONFLICT (org_id, seq) DO UPDATE SET state = excluded.state, lease_seq = excluded.lease_seq, saved_at = excluded.saved_at
     RETURNING org_id, seq
   )
   SELECT p.is_right, w.seq IS NOT NULL AS has_landed, c.is_forced
   FROM place p LEFT JOIN written w ON true
   LEFT JOIN millrace.cancel_requests c ON c.org_id = w.org_id AND c.seq = w.seq`,
);

const LOAD = statement(
  'load_checkpoint',
  `SELECT p.is_right, c.state, c.lease_seq, c.saved_at
   FROM (SELECT $3::xid8 IS NULL OR ($3::xid8 = pg_current_xact_id_if_assigned()) IS TRUE AS is_right) p
   LEFT JOIN millrace.checkpoints c ON c.org_id = $1::uuid AND c.seq = $2::int8`,
);

export type NewCheckpoint = { orgId: string; seq: number; leaseSeq: number; state: Uint8Array };

/** With `transactionId` it saves only if `db` is still in that transaction. */
export async function saveCheckpoint(
  db: Queryable,
  checkpoint: NewCheckpoint,
  transactionId: string | null = null,
): Promise<FencedAnswer> {
  const { orgId, seq, leaseSeq, state } = checkpoint;
  const bytes = Buffer.from(state.buffer, state.byteOffset, state.byteLength);
  return toFencedAnswer(await run<FencedRow>(db, SAVE, [orgId, seq, leaseSeq, bytes, transactionId]));
}

type Checkpoint = { state: Uint8Array; leaseSeq: number; savedAt: Date };

export type FoundCheckpoint = { checkpoint: Checkpoint | null; transactionEnded?: true };

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
