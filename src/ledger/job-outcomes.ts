import type { Failure } from '../core/failure.ts';
import { decodePayload } from '../core/payload.ts';
import { type Queryable, run, statement } from './statement.ts';

// By transaction, because the clock of a test stands still: what one step causes in the next has a younger transaction.
const OUTCOMES = statement(
  'job_outcomes',
  `SELECT e.job_seq, e.n, j.id, j.job_type, e.to_state AS state, e.attempt, e.detail, j.result::text AS result, j.result_bytes
   FROM millrace.events e JOIN millrace.jobs j ON j.org_id = e.org_id AND j.seq = e.job_seq
   WHERE e.at >= $1::timestamptz AND e.to_state IN ('completed', 'failed', 'dead_letter', 'cancelled', 'retrying')
   ORDER BY age(e.xmin) DESC, e.lease_seq, e.job_seq, e.n`,
);

type Row = {
  job_seq: number;
  n: number;
  id: string;
  job_type: string;
  state: 'completed' | 'failed' | 'dead_letter' | 'cancelled' | 'retrying';
  attempt: number;
  detail: Record<string, unknown> | null;
  result: string | null;
  result_bytes: Uint8Array | null;
};

/** How an attempt ended, or a job that ended without one. `attempt` is 0 for a job that never ran. */
export type JobOutcome = { jobId: string; type: string; attempt: number } & (
  | { state: 'completed'; output: unknown }
  | { state: 'failed' | 'dead_letter' | 'cancelled' | 'retrying'; failure: Failure | null }
);

/** The outcomes since a time, in the order they came about. `key` names one for good. */
export async function readOutcomes(db: Queryable, since: Date): Promise<{ key: string; outcome: JobOutcome }[]> {
  const rows = await run<Row>(db, OUTCOMES, [since]);
  return rows.map((row) => ({ key: `${row.job_seq}/${row.n}`, outcome: toOutcome(row) }));
}

function toOutcome(row: Row): JobOutcome {
  const facts = { jobId: row.id, type: row.job_type, attempt: row.attempt };
  if (row.state !== 'completed') return { ...facts, state: row.state, failure: failureIn(row.detail) };
  const { result, result_bytes: bytes } = row;
  const output = bytes === null ? { kind: 'json' as const, text: result ?? 'null' } : { kind: 'bytes' as const, bytes };
  return { ...facts, state: row.state, output: decodePayload(output) };
}

// The words of a cancellation stand in the same place; they are no failure.
const failureIn = (detail: Row['detail']): Failure | null =>
  detail !== null && 'category' in detail ? (detail as unknown as Failure) : null;
