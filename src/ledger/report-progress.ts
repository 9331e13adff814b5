import { type Queryable, run, statement } from './statement.ts';

// Fenced by the lease in the same statement: a report of an attempt that lost the job does not land.
const REPORT = statement(
  'report_progress',
  `WITH owned AS (
     SELECT j.org_id, j.seq FROM millrace.jobs j
     WHERE j.org_id = $1::uuid AND j.seq = $2::int8 AND j.lease_seq = $3::int8 AND j.state = 'running' FOR NO KEY UPDATE
   ), written AS (
     INSERT INTO millrace.progress AS p (org_id, seq, percent, message, updated_at)
     SELECT org_id, seq, $4::int2, $5, millrace.clock() FROM owned
     ON CONFLICT (org_id, seq) DO UPDATE SET percent = excluded.percent, message = excluded.message,
       updated_at = excluded.updated_at
     RETURNING org_id, seq
   )
   SELECT c.is_forced FROM written w LEFT JOIN millrace.cancel_requests c ON c.org_id = w.org_id AND c.seq = w.seq`,
);

type CancelWish = 'soft' | 'force' | null;

export type FencedAnswer = { landed: boolean; cancelRequested: CancelWish };

export type ProgressReport = { orgId: string; seq: number; leaseSeq: number; percent: number; message: string | null };

export async function reportProgress(db: Queryable, report: ProgressReport): Promise<FencedAnswer> {
  const { orgId, seq, leaseSeq, percent, message } = report;
  return toFencedAnswer(await run<FencedRow>(db, REPORT, [orgId, seq, leaseSeq, percent, message]));
}

export type FencedRow = { is_forced: boolean | null };

export function toFencedAnswer([row]: FencedRow[]): FencedAnswer {
  if (row === undefined) return { landed: false, cancelRequested: null };
  return { landed: true, cancelRequested: row.is_forced === null ? null : row.is_forced ? 'force' : 'soft' };
}
