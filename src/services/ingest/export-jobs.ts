import type { Database } from '../../ledger/driver/database.ts';
import { type IngestJobFilter, type IngestJobPosition, listIngestJobs } from '../../ledger/ingest/read-jobs.ts';
import { type IngestSnapshot, snapshotOf } from './snapshot.ts';

const PAGE = 200;

export type ExportFilter = Pick<IngestJobFilter, 'jobType' | 'tenant' | 'since' | 'until' | 'status' | 'orgId'>;

/** Every job that matches, newest first, in pages. */
export async function* exportJobs({ maintenance }: Pick<Database, 'maintenance'>, filter: ExportFilter): AsyncGenerator<IngestSnapshot[]> {
  let after: IngestJobPosition | null = null;
  do {
    const page: Awaited<ReturnType<typeof listIngestJobs>> = await listIngestJobs(maintenance, filter, { after, limit: PAGE });
    if (page.jobs.length > 0) yield page.jobs.map(snapshotOf);
    after = page.next;
  } while (after !== null);
}
