import type { Engine } from '../../engine/engine.ts';
import { pruneAlerts } from '../../ledger/alerts/announce-alerts.ts';
import { analyzeHistory } from '../../ledger/history/analyze-history.ts';
import { dropOldPartitions, sweepDefaultPartition } from '../../ledger/history/record-partitions.ts';
import { pruneRollups } from '../../ledger/history/rollups.ts';
import { pruneIngestKeys } from '../../ledger/ingest/prune-ingest.ts';
import { pruneLimits } from '../../ledger/upkeep/grant-limited.ts';
import { pruneCancelRequests, pruneEnded, pruneExpiredKeys } from '../../ledger/upkeep/prune.ts';
import { pruneBatches } from '../../ledger/upkeep/prune-batches.ts';
import { pruneAccess } from '../../ledger/upkeep/prune-keys.ts';
import type { IngestContext } from '../ingest/context.ts';
import { sweepObjects } from '../ingest/orphaned-objects.ts';
import { type IngestRetention, pruneIngest, trimStreams } from '../ingest/prune.ts';
import type { TaskStep, TaskSteps } from './maintenance-task.ts';

const LIMIT = 1_000;
const ROLLUP_LIMIT = 10_000;
const SWEPT_DEFAULT_LIMIT = 10_000;
/** Processes that hand out a limit record that at least once an hour. */
const UNUSED_LIMIT_MS = 86_400_000;

/** How long things are kept. */
type TaskRetention = IngestRetention & {
  readonly revokedKeysMs: number;
  readonly alertsMs: number;
};

export type TaskStepParams = {
  readonly engine: Engine;
  readonly ingest: Pick<IngestContext, 'engine' | 'store'>;
  readonly retention: TaskRetention;
  /** Removes webhook deliveries after their retention. */
  pruneDeliveries(): Promise<TaskStep>;
  /** Removes the bytes of downloads that were never finished. */
  sweepUploads(): Promise<number>;
  eraseOrgs(): Promise<TaskStep>;
};

/** The step of every task. Each removes only what its retention allows: the statements compare ages by the clock of the database. */
export function taskSteps(params: TaskStepParams): TaskSteps {
  const { engine, ingest, retention, eraseOrgs, sweepUploads, pruneDeliveries } = params;
  const { maintenance, projecting } = engine.database;
  const limit = LIMIT;
  return {
    idempotency_keys: () => all(limit, [() => pruneExpiredKeys(maintenance, limit), () => pruneIngestKeys(maintenance, limit)]),
    jobs: () =>
      all(limit, [
        () => pruneEnded(maintenance, limit),
        () => pruneCancelRequests(maintenance, limit),
        () => pruneLimits(maintenance, { unusedMs: UNUSED_LIMIT_MS, limit }),
        () => pruneBatches(maintenance, limit),
      ]),
    access: async () => {
      const { revokedKeys, replies } = await pruneAccess(maintenance, { revokedKeysMs: retention.revokedKeysMs, limit });
      return stepOf(limit, [revokedKeys, replies]);
    },
    history: async () => {
      const dropped = await dropOldPartitions(maintenance);
      const swept = await sweepDefaultPartition(maintenance, SWEPT_DEFAULT_LIMIT);
      return { removed: dropped.length + swept, hasMore: swept >= SWEPT_DEFAULT_LIMIT };
    },
    statistics: async () => {
      await analyzeHistory(maintenance);
      return { removed: 0, hasMore: false };
    },
    rollups: () => all(ROLLUP_LIMIT, [() => pruneRollups(projecting, ROLLUP_LIMIT)]),
    webhook_deliveries: pruneDeliveries,
    ingest: () => pruneIngest(ingest, retention),
    streams: () => trimStreams(ingest, retention),
    orphan_objects: () => sweepObjects(ingest),
    partial_uploads: async () => ({ removed: await sweepUploads(), hasMore: false }),
    alerts: () => all(limit, [() => pruneAlerts(maintenance, { retentionMs: retention.alertsMs, limit })]),
    deleted_orgs: eraseOrgs,
  };
}

/** One statement after the other, so that a task uses one connection. */
async function all(limit: number, prunes: readonly (() => Promise<number>)[]): Promise<TaskStep> {
  const counts: number[] = [];
  for (const prune of prunes) counts.push(await prune());
  return stepOf(limit, counts);
}

const stepOf = (limit: number, counts: readonly number[]): TaskStep => ({
  removed: counts.reduce((sum, count) => sum + count, 0),
  hasMore: counts.some((count) => count >= limit),
});
