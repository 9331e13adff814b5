import { AppError } from '../../core/errors.ts';
import { isUuid } from '../../core/ids.ts';
import { type IngestStatus, RESOURCE_STATUSES } from '../../core/ingest/status.ts';
import { JOB_STATES, type JobState } from '../../core/states.ts';
import type { Engine } from '../../engine/engine.ts';
import { readsOf } from '../../ledger/driver/org-reads.ts';
import { readPageCursor, writePageCursor } from '../../ledger/driver/page-cursor.ts';
import { sealOf } from '../../ledger/driver/seal.ts';
import { getIngestJob, type IngestJob, type IngestJobFilter, listIngestJobs } from '../../ledger/ingest/read-jobs.ts';
import { type IngestResourceRow, listIngestResources } from '../../ledger/ingest/read-resources.ts';

export type { IngestJob, IngestJobFilter, IngestResourceRow };

type Parts = Pick<Engine, 'database'>;

/** Who looks: an operator sees every org, a key with the scope `operator` its own. */
export type Sight = { readonly orgId: string | null };

const noSuchJob = (id: string): AppError => new AppError('NOT_FOUND', { message: `There is no ingest job ${id.slice(0, 100)}.` });

/** Throws NOT_FOUND for a job that does not exist, was removed after its retention, or belongs to another org. */
export async function requireIngestJob({ database }: Parts, { orgId }: Sight, id: string): Promise<IngestJob> {
  const job = isUuid(id) ? await getIngestJob(readsOf(database.reads, orgId, database.api), { id, orgId }) : null;
  if (job === null) throw noSuchJob(id);
  return job;
}

export type Page = { readonly cursor: string | null; readonly limit: number };

/** Cursors of operators belong to no org. */
const EVERY_ORG = 'operators';

export type ListedIngestJobs = { readonly items: readonly IngestJob[]; readonly nextCursor: string | null };

export async function findIngestJobs({ database }: Parts, filter: IngestJobFilter, { cursor, limit }: Page): Promise<ListedIngestJobs> {
  const seal = await sealOf(database.api);
  const { orgId, ...rest } = filter;
  const scope = { list: 'INGEST_JOBS', orgId: orgId ?? EVERY_ORG, filter: rest } as const;
  const [createdAt, id] = cursor === null ? [] : (readPageCursor(seal, scope, cursor) as [string, string]);
  const after = createdAt === undefined || id === undefined ? null : { createdAt, id };
  const { jobs, next } = await listIngestJobs(readsOf(database.searches, orgId, database.api), filter, { after, limit });
  return { items: jobs, nextCursor: next === null ? null : writePageCursor(seal, scope, [next.createdAt, next.id]) };
}

export type ListedResources = { readonly items: readonly IngestResourceRow[]; readonly nextCursor: string | null };

const statesOf = (status: IngestStatus): JobState[] => JOB_STATES.filter((state) => RESOURCE_STATUSES[state] === status);

export async function findResources(
  { database }: Parts,
  { jobId, orgId, status }: { jobId: string; orgId: string; status: IngestStatus | null },
  { cursor, limit }: Page,
): Promise<ListedResources> {
  const seal = await sealOf(database.api);
  const scope = { list: 'INGEST_RESOURCES', orgId, filter: { jobId, status } } as const;
  const after = cursor === null ? -1 : (readPageCursor(seal, scope, cursor)[0] as number);
  const states = status === null ? null : statesOf(status);
  const { resources, next } = await listIngestResources(database.searches.of(orgId), { jobId, states, after, limit });
  return { items: resources, nextCursor: next === null ? null : writePageCursor(seal, scope, [next]) };
}
