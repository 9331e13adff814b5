import type { LogLevel, LogLine, LogPosition } from '../../core/job-log.ts';
import type { Owner } from '../../core/owner.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';
import type { Time } from './job-row.ts';

export type StoredLine = LogLine & LogPosition;

export type LineRow = {
  lease_seq: number;
  n: number;
  attempt: number;
  level: LogLevel;
  at: Time;
  message: string;
  fields: string | null;
};

export const LINE_COLUMNS = 'l.lease_seq, l.n, l.attempt, l.level, l.at, l.message, l.fields::text AS fields';

// A row without a line says that the job exists.
const READ = statement(
  'read_job_logs',
  `SELECT ${LINE_COLUMNS}
   FROM (SELECT j.org_id, j.seq FROM millrace.jobs j WHERE j.id = $2::uuid AND (j.org_id = $1::uuid) IS TRUE
     AND ($3::uuid IS NULL OR j.project_id = $3::uuid)) j
   LEFT JOIN LATERAL (
     SELECT * FROM millrace.job_logs l WHERE l.org_id = j.org_id AND l.seq = j.seq AND (l.lease_seq, l.n) > ($4::int8, $5::int4)
       AND l.level = ANY ($6::text[])
     ORDER BY l.lease_seq, l.n LIMIT $7::int4) l ON true
   ORDER BY l.lease_seq, l.n`,
);

export type LogsWanted = { jobId: string; after: LogPosition; levels: readonly LogLevel[]; limit: number };

/** Returns the lines of a job after a position, oldest first, or null if the owner has no such job. */
export async function readJobLogs(
  db: Queryable,
  { orgId, projectId }: Owner,
  { jobId, after, levels, limit }: LogsWanted,
): Promise<StoredLine[] | null> {
  const rows = await run<LineRow | { n: null }>(db, READ, [orgId, jobId, projectId, after.leaseSeq, after.n, levels, limit]);
  if (rows.length === 0) return null;
  return rows.flatMap((row) => (row.n === null ? [] : [toLine(row)]));
}

export const toLine = ({ lease_seq, n, attempt, level, at, message, fields }: LineRow): StoredLine => ({
  leaseSeq: lease_seq,
  n,
  attempt,
  level,
  at: new Date(at),
  message,
  fields: fields === null ? {} : (JSON.parse(fields) as Record<string, unknown>),
});
