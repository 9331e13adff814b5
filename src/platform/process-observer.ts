import type pg from 'pg';
import { FETCH_TYPE } from '../core/ingest/fetch-task.ts';
import type { EngineEvents, EventHub } from '../engine/events.ts';
import { observeBatches } from '../ledger/driver/batch-sizes.ts';
import type { Database } from '../ledger/driver/database.ts';
import { observeStatements } from '../ledger/driver/statement.ts';
import { type PoolUse, ProcessMetrics } from '../telemetry/process-metrics.ts';
import type { Telemetry } from '../telemetry/telemetry.ts';

/** Which statements are measured, by the start of their names. */
const OPERATIONS = [
  ['millrace_submit', 'submit'],
  ['millrace_claim', 'claim'],
  ['millrace_lease_ahead', 'claim'],
  ['millrace_start', 'start'],
  ['millrace_complete', 'complete'],
  ['millrace_settle', 'settle'],
  ['millrace_heartbeat', 'heartbeat'],
  ['millrace_project_rollups', 'rollup'],
] as const;

/**
 * Counts what this process does: statements, batches, pools, and claims and submissions that leave no trace in the history. The pools of a
 * program that uses the library are its own: then `database` is null.
 */
export function observeProcess(events: Pick<EventHub, 'on'>, database: Database | null, { metrics }: Telemetry): () => void {
  const counters = new ProcessMetrics(metrics);
  const operations = new Map<string, string | null>();
  observeStatements(({ name, durationMs, rows, failed, sqlState }) => {
    if (failed) counters.databaseFailed(sqlState);
    let operation = operations.get(name);
    if (operation === undefined) {
      operation = OPERATIONS.find(([prefix]) => name.startsWith(prefix))?.[1] ?? null;
      operations.set(name, operation);
    }
    if (operation !== null) counters.statement(operation, durationMs / 1_000, operation === 'claim' ? rows : null);
  });
  observeBatches((operation, jobs) => counters.batch(operation, jobs));
  if (database !== null) metrics.onScrape(async () => counters.pools(poolsOf(database)));
  const stops = [
    events.on('notificationLost', () => counters.notificationLost()),
    events.on('deduplicated', ({ submissions }) => counters.deduplicated(submissions)),
    events.on('unclaimed', () => counters.unclaimed()),
    () => observeStatements(null),
    () => observeBatches(null),
  ];
  return () => {
    for (const stop of stops) stop();
  };
}

/** Counts the downloads of this process. */
export function observeDownloads(events: EventHub, { metrics }: Telemetry): () => void {
  const counters = new ProcessMetrics(metrics);
  const stops = [
    events.onType('completed', FETCH_TYPE, (facts) => counters.fetched('completed', bytesOf(facts))),
    events.onType('failed', FETCH_TYPE, () => counters.fetched('failed')),
    events.onType('postponed', FETCH_TYPE, () => counters.fetched('postponed')),
  ];
  return () => {
    for (const stop of stops) stop();
  };
}

function bytesOf({ output }: EngineEvents['completed']): number {
  const bytes = (output as { bytes?: unknown } | null)?.bytes;
  return typeof bytes === 'number' ? bytes : 0;
}

const POOLS = ['api', 'searching', 'workers', 'maintenance', 'projecting'] as const satisfies readonly (keyof Database)[];

const poolsOf = (database: Database): PoolUse[] =>
  POOLS.map((pool) => {
    const { totalCount, idleCount, waitingCount }: pg.Pool = database[pool];
    return { pool, busy: totalCount - idleCount, idle: idleCount, waiting: waitingCount };
  });
