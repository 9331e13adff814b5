import type { LogLevel } from '../../core/job-log.ts';
import { float4Array, int2Array, int4Array, int8Array, jsonArray, textArray, uuidArray } from '../driver/binary-array.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';

/** A line as the worker has it. `ageMs` is how long ago the handler logged it. */
export type LineToWrite = {
  orgId: string;
  seq: number;
  leaseSeq: number;
  n: number;
  attempt: number;
  level: LogLevel;
  ageMs: number;
  message: string;
  /** JSON, or null if there are none. */
  fields: string | null;
};

// The newest lease of a job may write lines, also after its attempt has ended, and an older one may not. No row of a job is locked: a
// claim that comes in between only lets the last lines of the attempt before it through.
const WRITE = statement(
  'write_job_logs',
  `WITH input AS MATERIALIZED (
     SELECT * FROM unnest($1::uuid[], $2::int8[], $3::int8[], $4::int4[], $5::int2[], $6::text[], $7::float4[], $8::text[], $9::json[])
       AS i(org_id, seq, lease_seq, n, attempt, level, age_ms, message, fields)
   ), owned AS MATERIALIZED (
     SELECT i.org_id, i.seq, i.lease_seq FROM (SELECT DISTINCT org_id, seq, lease_seq FROM input) i
     CROSS JOIN LATERAL (
       SELECT FROM millrace.jobs j WHERE j.org_id = i.org_id AND j.seq = i.seq AND j.lease_seq = i.lease_seq OFFSET 0) j
   )
   INSERT INTO millrace.job_logs (org_id, seq, lease_seq, n, attempt, level, at, message, fields)
   SELECT i.org_id, i.seq, i.lease_seq, i.n, i.attempt, i.level, millrace.clock() - i.age_ms * interval '1 ms', i.message, i.fields
   FROM input i JOIN owned o ON o.org_id = i.org_id AND o.seq = i.seq AND o.lease_seq = i.lease_seq
   ON CONFLICT (org_id, seq, lease_seq, n) DO NOTHING`,
);

/** Stores lines. Those of an attempt that has lost its job are dropped, and a line that is already stored is left as it is. */
export async function writeLogs(db: Queryable, lines: readonly LineToWrite[]): Promise<void> {
  await run(db, WRITE, [
    uuidArray(lines.map((line) => line.orgId)),
    int8Array(lines.map((line) => line.seq)),
    int8Array(lines.map((line) => line.leaseSeq)),
    int4Array(lines.map((line) => line.n)),
    int2Array(lines.map((line) => line.attempt)),
    textArray(lines.map((line) => line.level)),
    float4Array(lines.map((line) => line.ageMs)),
    textArray(lines.map((line) => line.message)),
    jsonArray(lines.map((line) => line.fields)),
  ]);
}

// Every attempt that logged has a first line.
const TRIM = statement(
  'trim_job_logs',
  `DELETE FROM millrace.job_logs WHERE org_id = $1::uuid AND seq = $2::int8 AND lease_seq <= (
     SELECT lease_seq FROM millrace.job_logs WHERE org_id = $1::uuid AND seq = $2::int8 AND n = 1
     ORDER BY lease_seq DESC OFFSET $3::int4 LIMIT 1)`,
);

/** Removes the lines of all attempts of a job but the newest. */
export async function trimLogs(db: Queryable, { orgId, seq, attempts }: { orgId: string; seq: number; attempts: number }): Promise<void> {
  await run(db, TRIM, [orgId, seq, attempts]);
}
