import { type Queryable, run, statement } from '../driver/statement.ts';

// Fenced by the lease in the same statement: a report of an attempt that lost the job does not land. A statement that is meant for
// one transaction writes nothing in another. A lock that others hold is not waited for here: that would take a session from the pool
// for as long. The caller tries again.
const REPORT = statement(
  'report_progress',
  `WITH place AS MATERIALIZED (
     SELECT $6::xid8 IS NULL OR ($6::xid8 = pg_current_xact_id_if_assigned()) IS TRUE AS is_right
   ), owned AS (
     SELECT j.org_id, j.seq FROM millrace.jobs j
     WHERE j.org_id = $1::uuid AND j.seq = $2::int8 AND j.lease_seq = $3::int8 AND j.state = 'running'
       AND (SELECT is_right FROM place)
     FOR NO KEY UPDATE NOWAIT
   ), written AS (
     INSERT INTO millrace.progress AS p (org_id, seq, percent, message, updated_at)
     SELECT org_id, seq, $4::int2, $5, millrace.clock() FROM owned
     ON CONFLICT (org_id, seq) DO UPDATE SET percent = excluded.percent, message = excluded.message,
       updated_at = excluded.updated_at
     RETURNING org_id, seq
   )
   SELECT p.is_right, w.seq IS NOT NULL AS has_landed, c.is_forced
   FROM place p LEFT JOIN written w ON true
   LEFT JOIN millrace.cancel_requests c ON c.org_id = w.org_id AND c.seq = w.seq`,
);

type CancelWish = 'soft' | 'force' | null;

export type FencedAnswer = {
  landed: boolean;
  cancelRequested: CancelWish;
  /** Nothing was written or looked at: the transaction that the statement was meant for has ended. */
  transactionEnded?: true;
};

export type ProgressReport = { orgId: string; seq: number; leaseSeq: number; percent: number; message: string | null };

/** With `transactionId` it reports only if `db` is still in that transaction. */
export async function reportProgress(
  db: Queryable,
  report: ProgressReport,
  transactionId: string | null = null,
): Promise<FencedAnswer> {
  const { orgId, seq, leaseSeq, percent, message } = report;
  return toFencedAnswer(await run<FencedRow>(db, REPORT, [orgId, seq, leaseSeq, percent, message, transactionId]));
}

export type FencedRow = { is_right: boolean; has_landed: boolean; is_forced: boolean | null };

export function toFencedAnswer(rows: FencedRow[]): FencedAnswer {
  const { is_right, has_landed, is_forced } = rows[0] as FencedRow;
  const cancelRequested = is_forced === null ? null : is_forced ? 'force' : 'soft';
  const answer = { landed: has_landed, cancelRequested } as const;
  return is_right ? answer : { ...answer, transactionEnded: true };
}
