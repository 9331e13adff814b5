import type pg from 'pg';
import type { Failure } from '../../core/failure.ts';
import { decodePayload } from '../../core/payload.ts';

// The ledger does not store the order of outcomes: a test's clock stands still, and the transaction that began first may write last. So
// a test database records each outcome as it is written. The statements are not made by `statement`, because a migrated database does
// not have these tables.
const CREATE = `CREATE SCHEMA millrace_test;
  CREATE TABLE millrace_test.outcomes
    (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, org_id uuid NOT NULL, job_seq bigint NOT NULL, n smallint NOT NULL);
  CREATE FUNCTION millrace_test.note() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN
    INSERT INTO millrace_test.outcomes (org_id, job_seq, n) SELECT NEW.org_id, u.* FROM unnest(NEW.seqs, NEW.ns) AS u;
    RETURN NULL;
  END$$;
  CREATE TRIGGER millrace_test_note AFTER INSERT ON millrace.records FOR EACH ROW
    WHEN (NEW.to_state IN ('completed', 'failed', 'dead_letter', 'cancelled', 'retrying')) EXECUTE FUNCTION millrace_test.note()`;

const READ = `SELECT o.id AS note, j.id, j.job_type, e.to_state AS state, e.attempt, e.detail, j.result::text AS result, j.result_bytes
  FROM millrace_test.outcomes o
  JOIN millrace.jobs j ON j.org_id = o.org_id AND j.seq = o.job_seq
  JOIN millrace.events e ON e.record_id = ANY (j.record_ids) AND e.org_id = o.org_id AND e.job_seq = o.job_seq AND e.n = o.n
  WHERE o.id > $1::int8 ORDER BY o.id`;

type Row = {
  note: number;
  id: string;
  job_type: string;
  state: 'completed' | 'failed' | 'dead_letter' | 'cancelled' | 'retrying';
  attempt: number;
  detail: Record<string, unknown> | null;
  result: string | null;
  result_bytes: Uint8Array | null;
};

/** How an attempt ended, or a job without an attempt. `attempt` is 0 for a job that never ran. */
export type JobOutcome = (Completed | NotCompleted) & {
  /** The id of the job. */
  jobId: string;
  /** The job type. */
  type: string;
  /** The number of the attempt. The first is 1. */
  attempt: number;
};

type Completed = { state: 'completed'; output: unknown };
type NotCompleted = { state: 'failed' | 'dead_letter' | 'cancelled' | 'retrying'; failure: Failure | null };

/** Records outcomes in this database from now on. Use it only in a database that belongs to one test. */
export async function keepOutcomes(pool: pg.Pool): Promise<void> {
  await pool.query(CREATE);
}

/** Returns the outcomes after number `after`, in the order in which they happened, and the number of the last one. */
export async function readOutcomes(pool: pg.Pool, after: number): Promise<{ outcomes: JobOutcome[]; last: number }> {
  const { rows } = await pool.query<Row>(READ, [after]);
  return { outcomes: rows.map(toOutcome), last: rows.at(-1)?.note ?? after };
}

function toOutcome(row: Row): JobOutcome {
  const facts = { jobId: row.id, type: row.job_type, attempt: row.attempt };
  if (row.state !== 'completed') return { ...facts, state: row.state, failure: failureIn(row.detail) };
  const { result, result_bytes: bytes } = row;
  const output = bytes === null ? { kind: 'json' as const, text: result ?? 'null' } : { kind: 'bytes' as const, bytes };
  return { ...facts, state: row.state, output: decodePayload(output) };
}

// The reason of a cancellation is stored in the same column, and is not a failure.
const failureIn = (detail: Row['detail']): Failure | null =>
  detail !== null && 'category' in detail ? (detail as unknown as Failure) : null;
