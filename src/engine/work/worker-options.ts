import type { StartedJob } from '../../ledger/attempts/claim-and-start.ts';
import type { Database } from '../../ledger/driver/database.ts';
import type { PolicyCache } from '../../ledger/jobs/intern-policies.ts';
import type { EventHub } from '../events.ts';
import type { JobContext } from './job-context.ts';
import type { KnownOrgs } from './known-orgs.ts';
import type { ProducerOptions } from './producer-options.ts';
import type { Producers } from './producers.ts';
import type { HandlerRegistry } from './registry.ts';
import type { RunningAttempt } from './running-attempt.ts';

export type WorkerOptions = {
  database: Database;
  policies: PolicyCache;
  registry: HandlerRegistry;
  orgs: KnownOrgs;
  producers: Producers;
  events: EventHub;
  workerId: number;
  slots: number;
  queues: readonly string[];
  maxResultBytes: number;
  /** How long a worker that stops keeps trying to write its last outcomes. */
  lastWritesMs?: number;
  /** One statement claims jobs, the next one starts them. */
  startsApart: boolean;
  reservedSlots: ProducerOptions['reservedSlots'];
  fairQueues: ProducerOptions['fairQueues'];
  governedQueues: ProducerOptions['governedQueues'];
  /** The part of the slots that is kept for each queue that has one. */
  reservedShares(): ReadonlyMap<string, number>;
  hasCaps(): boolean;
  contextOf(attempt: RunningAttempt): JobContext;
  onStarted(started: readonly StartedJob[]): void;
  onReleased(): void;
  onDelayed(delayMs: number): void;
  onLimitFree(limitId: number): void;
};
