import type { IngestStatus } from '../../core/ingest/status.ts';
import { namedStatement, type Queryable, run, runNamed, statement } from '../driver/statement.ts';
import { countsText, INGEST_JOB_COLUMNS, INGEST_JOB_JOINS, STATUS } from './derived-text.ts';

export type IngestError = { readonly code: string; readonly message: string };

/** An ingest job with its status and counters, derived from its downloads. */
export type IngestJob = {
  readonly id: string;
  readonly orgId: string;
  readonly orgSlug: string;
  readonly jobType: string;
  readonly tenant: string | null;
  readonly bucket: string;
  readonly manifestSha256: string;
  /** The producer that published the tasks; null if the job was a request. */
  readonly producer: string | null;
  readonly producerJobId: string | null;
  /** Where the producer says that its manifest is. */
  readonly manifestKey: string | null;
  readonly resourceCount: number;
  readonly resourceTotal: number;
  readonly logOffset: number;
  readonly createdAt: Date;
  readonly updatedAt: Date;
  readonly settledAt: Date | null;
  readonly status: IngestStatus;
  readonly completed: number;
  readonly failed: number;
  readonly bytes: number;
  readonly lastError: IngestError | null;
  /** The state of the handler's last step; null if it has none, or has not begun. */
  readonly finalizer: 'in_progress' | 'completed' | 'failed' | null;
};

const GET = statement(
  'get_ingest_job',
  `SELECT ${INGEST_JOB_COLUMNS} FROM millrace.ingest_jobs i ${INGEST_JOB_JOINS} ${countsText('true')}
   WHERE i.id = $1::uuid AND ($2::uuid IS NULL OR i.org_id = $2::uuid)`,
);

/** Without an org it finds jobs of every org, for operators. */
export async function getIngestJob(db: Queryable, { id, orgId }: { id: string; orgId: string | null }): Promise<IngestJob | null> {
  return (await run<IngestJob>(db, GET, [id, orgId]))[0] ?? null;
}

export type IngestJobFilter = {
  readonly orgId: string | null;
  readonly status: IngestStatus | null;
  readonly jobType: string | null;
  readonly tenant: string | null;
  readonly since: Date | null;
  readonly until: Date | null;
};

/** The last job of the page before. Times are exact to the microsecond, so they are kept as text. */
export type IngestJobPosition = { readonly createdAt: string; readonly id: string };

type Listed = IngestJob & { readonly place: string };

type Params = IngestJobFilter & { afterAt: string | null; afterId: string | null; limit: number };

// Jobs that have ended are not counted again: their sums were copied. So a page costs little, however many resources its jobs have.
const LIST = namedStatement<Params, Listed>(
  'list_ingest_jobs',
  `SELECT ${INGEST_JOB_COLUMNS}, i.created_at::text AS place
   FROM millrace.ingest_jobs i ${INGEST_JOB_JOINS} ${countsText('i.settled_at IS NULL')}
   WHERE ($orgId::uuid IS NULL OR i.org_id = $orgId::uuid) AND ($jobType::text IS NULL OR i.job_type = $jobType::text)
     AND ($tenant::text IS NULL OR i.tenant = $tenant::text)
     AND ($since::timestamptz IS NULL OR i.created_at >= $since::timestamptz)
     AND ($until::timestamptz IS NULL OR i.created_at < $until::timestamptz)
     AND ($afterAt::text IS NULL OR (i.created_at, i.id) < ($afterAt::text::timestamptz, $afterId::uuid))
     AND ($status::text IS NULL OR ${STATUS} = $status::text)
   ORDER BY i.created_at DESC, i.id DESC LIMIT $limit::int4`,
);

/** Newest first. */
export async function listIngestJobs(
  db: Queryable,
  filter: IngestJobFilter,
  { after, limit }: { after: IngestJobPosition | null; limit: number },
): Promise<{ jobs: IngestJob[]; next: IngestJobPosition | null }> {
  const params = { ...filter, afterAt: after?.createdAt ?? null, afterId: after?.id ?? null, limit: limit + 1 };
  const rows = await runNamed(db, LIST, params);
  const page = rows.slice(0, limit);
  const last = page.at(-1);
  const next = rows.length > limit && last !== undefined ? { createdAt: last.place, id: last.id } : null;
  return { jobs: page, next };
}
