import { manifestKeysOf } from '../../core/ingest/object-key.ts';
import { type IngestIntent, removeIntent, staleIntents } from '../../ledger/ingest/ingest-intents.ts';
import type { IngestContext } from './context.ts';

/** Longer than any request takes. */
const ORPHANED_AFTER_MS = 3_600_000;
const AT_ONCE = 100;

type Parts = Pick<IngestContext, 'engine' | 'store'>;

/** Removes the objects of a submission that was not accepted. */
export async function forgetObjects({ engine, store }: Parts, { jobId, bucket, jobType }: IngestIntent): Promise<void> {
  const keys = manifestKeysOf(jobType, jobId);
  await store.delete({ bucket, key: keys.metadata });
  await store.delete({ bucket, key: keys.manifest });
  await removeIntent(engine.database.maintenance, jobId);
}

/** Removes objects that were stored for submissions that were never accepted. Returns how many submissions that were. */
export async function sweepObjects(parts: Parts): Promise<{ removed: number; hasMore: boolean }> {
  const stale = await staleIntents(parts.engine.database.maintenance, { olderThanMs: ORPHANED_AFTER_MS, limit: AT_ONCE });
  for (const intent of stale) await forgetObjects(parts, intent);
  return { removed: stale.length, hasMore: stale.length === AT_ONCE };
}
