import { type FencedAnswer, type FencedRow, toFencedAnswer } from './report-progress.ts';
import { type Queryable, run, statement } from './statement.ts';

// The row lock keeps the lease until the checkpoint is written: no later attempt can start in between and be overwritten.
const SAVE = statement(
  'save_checkpoint',
  `WITH owned AS (
     SELECT j.org_id, j.seq FROM millrace.jobs j
     WHERE j.org_id = $1::uuid AND j.seq = $2::int8 AND j.lease_seq = $3::int8 AND j.state = 'running' FOR NO KEY UPDATE
   ), written AS (
     INSERT INTO millrace.checkpoints AS p (org_id, seq, state, lease_seq, saved_at)
     SELECT org_id, seq, $4::bytea, $3::int8, millrace.clock() FROM owned
     ON CONFLICT (org_id, seq) DO UPDATE SET state = excluded.state, lease_seq = excluded.lease_seq, saved_at = excluded.saved_at
     RETURNING org_id, seq
   )
   SELECT c.is_forced FROM written w LEFT JOIN millrace.cancel_requests c ON c.org_id = w.org_id AND c.seq = w.seq`,
);

const LOAD = statement(
  'load_checkpoint',
  'SELECT state, lease_seq, saved_at FROM millrace.checkpoints WHERE org_id = $1::uuid AND seq = $2::int8',
);

export type NewCheckpoint = { orgId: string; seq: number; leaseSeq: number; state: Uint8Array };

export async function saveCheckpoint(db: Queryable, checkpoint: NewCheckpoint): Promise<FencedAnswer> {
  const { orgId, seq, leaseSeq, state } = checkpoint;
  const bytes = Buffer.from(state.buffer, state.byteOffset, state.byteLength);
  return toFencedAnswer(await run<FencedRow>(db, SAVE, [orgId, seq, leaseSeq, bytes]));
}

export type Checkpoint = { state: Uint8Array; leaseSeq: number; savedAt: Date };

/** What the newest attempt that saved anything left behind. */
export async function loadCheckpoint(
  db: Queryable,
  { orgId, seq }: { orgId: string; seq: number },
): Promise<Checkpoint | null> {
  const rows = await run<{ state: Buffer; lease_seq: number; saved_at: Date }>(db, LOAD, [orgId, seq]);
  const row = rows[0];
  if (row === undefined) return null;
  return { state: new Uint8Array(row.state), leaseSeq: Number(row.lease_seq), savedAt: new Date(row.saved_at) };
}
