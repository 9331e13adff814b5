// What handlers report while they run: progress and log lines. Neither is part of the history.
import type { Progress } from '../../core/job.ts';
import type { LogPosition } from '../../core/job-log.ts';
import { int4Array, int8Array, uuidArray } from '../driver/binary-array.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';
import { LINE_COLUMNS, type LineRow, type StoredLine, toLine } from './job-logs.ts';
import type { Time } from './job-row.ts';

/** `lines`: how many to return at most. */
export type WantedNews = { orgId: string; seq: number; after: LogPosition; lines: number };

export type ReportedProgress = Progress & { readonly attempt: number };

/** The newest progress of the current attempt, and the lines after a position. */
export type FoundNews = { progress: ReportedProgress | null; lines: StoredLine[] };

type Row = LineRow & { ord: number; percent: number | null };

const NO_LINE = 'NULL::int8 AS lease_seq, NULL::int4 AS n, j.attempts_started AS attempt, NULL AS level';

/** The progress that belongs to the newest attempt of job `j`, as a read of the job shows it. */
const CURRENT = `g.org_id = j.org_id AND g.seq = j.seq
    AND j.attempts_started >= j.attempt_slot AND g.updated_at >= coalesce(j.scheduled_at, j.created_at)`;

const OF_JOBS = statement(
  'read_job_news',
  `WITH wanted AS MATERIALIZED (
     SELECT * FROM unnest($1::uuid[], $2::int8[], $3::int8[], $4::int4[], $5::int4[]) WITH ORDINALITY
       AS w(org_id, seq, after_lease, after_n, lines, ord)
   )
   SELECT w.ord::int4 AS ord, g.percent, ${NO_LINE}, g.updated_at AS at, g.message, NULL AS fields
   FROM wanted w CROSS JOIN LATERAL (
     SELECT * FROM millrace.jobs j WHERE j.org_id = w.org_id AND j.seq = w.seq OFFSET 0) j
   CROSS JOIN LATERAL (SELECT * FROM millrace.progress g WHERE ${CURRENT} OFFSET 0) g
   UNION ALL
   SELECT w.ord::int4, NULL, ${LINE_COLUMNS}
   FROM wanted w CROSS JOIN LATERAL (
     SELECT * FROM millrace.job_logs l WHERE l.org_id = w.org_id AND l.seq = w.seq AND (l.lease_seq, l.n) > (w.after_lease, w.after_n)
     ORDER BY l.lease_seq, l.n LIMIT w.lines) l`,
);

/** Returns the news of each job, in order. */
export async function readNews(db: Queryable, wanted: readonly WantedNews[]): Promise<FoundNews[]> {
  const rows = await run<Row>(db, OF_JOBS, [
    uuidArray(wanted.map(({ orgId }) => orgId)),
    int8Array(wanted.map(({ seq }) => seq)),
    int8Array(wanted.map(({ after }) => after.leaseSeq)),
    int4Array(wanted.map(({ after }) => after.n)),
    int4Array(wanted.map(({ lines }) => lines)),
  ]);
  const found: FoundNews[] = wanted.map(() => ({ progress: null, lines: [] }));
  for (const row of rows) {
    const news = found[row.ord - 1] as FoundNews;
    if (row.percent === null) news.lines.push(toLine(row));
    else news.progress = toProgress(row, row.percent);
  }
  for (const { lines } of found) lines.sort((a, b) => a.leaseSeq - b.leaseSeq || a.n - b.n);
  return found;
}

const toProgress = ({ at, attempt, message }: { at: Time; attempt: number; message: string }, percent: number): ReportedProgress => ({
  percent,
  message,
  updatedAt: new Date(at),
  attempt,
});

/** Names a job. */
export type NamedJob = { readonly orgId: string; readonly seq: number };

/** Lines that one write stored: those of one attempt, from `from` to `to`. */
export type LineRange = NamedJob & { readonly leaseSeq: number; readonly from: number; readonly to: number };

/** News for the followers of an org, who need to know which job it is about. */
export type OrgNews = { readonly orgId: string; readonly projectId: string | null; readonly jobId: string; readonly jobSeq: number } & {
  readonly type: string;
  readonly progress: ReportedProgress | null;
  readonly line: StoredLine | null;
};

type OrgRow = Row & { org_id: string; project_id: string | null; id: string; seq: number; job_type: string };

const JOB = 'j.org_id, j.project_id, j.id, j.seq, j.job_type';

const OF_ORGS = statement(
  'read_org_news',
  `SELECT ${JOB}, g.percent, ${NO_LINE}, g.updated_at AS at, g.message, NULL AS fields
   FROM unnest($1::uuid[], $2::int8[]) AS w(org_id, seq)
   CROSS JOIN LATERAL (SELECT * FROM millrace.jobs j WHERE j.org_id = w.org_id AND j.seq = w.seq OFFSET 0) j
   CROSS JOIN LATERAL (SELECT * FROM millrace.progress g WHERE ${CURRENT} OFFSET 0) g
   UNION ALL
   SELECT ${JOB}, NULL, ${LINE_COLUMNS}
   FROM unnest($3::uuid[], $4::int8[], $5::int8[], $6::int4[], $7::int4[]) AS w(org_id, seq, lease_seq, low, high)
   CROSS JOIN LATERAL (SELECT * FROM millrace.jobs j WHERE j.org_id = w.org_id AND j.seq = w.seq OFFSET 0) j
   CROSS JOIN LATERAL (
     SELECT * FROM millrace.job_logs l WHERE l.org_id = j.org_id AND l.seq = j.seq AND l.lease_seq = w.lease_seq
       AND l.n BETWEEN w.low AND w.high ORDER BY l.n LIMIT $8::int4) l`,
);

/** Which jobs reported progress, and which lines were stored. */
export type ChangedNews = { readonly progress: readonly NamedJob[]; readonly lines: readonly LineRange[] };

/** Returns the newest progress of the jobs, and the lines, oldest first. It returns at most `most` lines of a range. */
export async function readOrgNews(db: Queryable, { progress, lines }: ChangedNews, most: number): Promise<OrgNews[]> {
  const rows = await run<OrgRow>(db, OF_ORGS, [
    uuidArray(progress.map(({ orgId }) => orgId)),
    int8Array(progress.map(({ seq }) => seq)),
    uuidArray(lines.map(({ orgId }) => orgId)),
    int8Array(lines.map(({ seq }) => seq)),
    int8Array(lines.map(({ leaseSeq }) => leaseSeq)),
    int4Array(lines.map(({ from }) => from)),
    int4Array(lines.map(({ to }) => to)),
    most,
  ]);
  const news = rows.map((row) => ({
    ...{ orgId: row.org_id, projectId: row.project_id, jobId: row.id, jobSeq: row.seq, type: row.job_type },
    progress: row.percent === null ? null : toProgress(row, row.percent),
    line: row.percent === null ? toLine(row) : null,
  }));
  return news.sort((a, b) => timeOf(a) - timeOf(b) || (a.line?.n ?? 0) - (b.line?.n ?? 0));
}

const timeOf = ({ progress, line }: OrgNews): number => (progress?.updatedAt ?? line?.at ?? new Date(0)).getTime();
