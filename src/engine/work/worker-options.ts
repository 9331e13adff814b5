import type { StartedJob } from '../../ledger/attempts/take-jobs.ts';
import type { Database } from '../../ledger/driver/database.ts';
import type { PolicyCache } from '../../ledger/jobs/intern-policies.ts';
import type { EventHub } from '../events.ts';
import type { Execution } from './execution.ts';
import type { JobContext } from './job-context.ts';
import type { Producers } from './producers.ts';
import type { HandlerRegistry } from './registry.ts';

export type WorkerOptions = {
  database: Database;
  policies: PolicyCache;
  registry: HandlerRegistry;
  producers: Producers;
  events: EventHub;
  workerId: number;
  slots: number;
  queues: readonly string[];
  /** How long a worker that stops insists that its last outcomes are written. */
  lastWritesMs?: number;
  /** Jobs are claimed by one statement and started by the next. */
  startsApart: boolean;
  fairQueues(): ReadonlySet<string>;
  hasCaps(): boolean;
  contextOf(execution: Execution): JobContext;
  onStarted(started: readonly StartedJob[]): void;
  onReleased(): void;
  onDelayed(delayMs: number): void;
};
