import type { StreamName } from '../../core/ingest/stream.ts';
import { pruneExcess, pruneIngestJobs } from '../../ledger/ingest/prune-ingest.ts';
import { trimStream } from '../../ledger/ingest/streams.ts';
import type { IngestContext } from './context.ts';

export type IngestRetention = {
  readonly tasksMs: number;
  readonly ledgerMs: number;
  readonly ledgerBytes: number;
  readonly logsMs: number;
  readonly deadLettersMs: number;
};

const LIMIT = 1_000;

type Parts = Pick<IngestContext, 'engine'>;

/** `hasMore`: call it again. */
type Pruned = { readonly removed: number; readonly hasMore: boolean };

/** Removes ingest jobs past their retention, and those beyond the size that they may have together. */
export async function pruneIngest({ engine }: Parts, { ledgerMs, ledgerBytes }: IngestRetention): Promise<Pruned> {
  const { maintenance } = engine.database;
  const old = await pruneIngestJobs(maintenance, { retentionMs: ledgerMs, limit: LIMIT });
  const excess = await pruneExcess(maintenance, { maxBytes: ledgerBytes, limit: LIMIT });
  return { removed: old + excess, hasMore: Math.max(old, excess) >= LIMIT };
}

/** Removes the entries of the streams past their retention. */
export async function trimStreams({ engine }: Parts, { tasksMs, logsMs, deadLettersMs }: IngestRetention): Promise<Pruned> {
  const { maintenance } = engine.database;
  const trim = (stream: StreamName, olderThanMs: number) => trimStream(maintenance, { stream, olderThanMs, limit: LIMIT });
  const counts = [await trim('jobs.tasks', tasksMs), await trim('jobs.logs', logsMs), await trim('jobs.dlq', deadLettersMs)];
  return { removed: counts.reduce((sum, count) => sum + count, 0), hasMore: counts.some((count) => count >= LIMIT) };
}
