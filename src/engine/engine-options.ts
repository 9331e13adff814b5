import type { Categories } from '../core/governance/category.ts';
import type { DeadLetterTerms } from '../core/governance/dead-letter.ts';
import type { Policy } from '../core/policy.ts';
import type { SubmissionLimits } from '../core/submission.ts';
import type { Database } from '../ledger/driver/database.ts';
import type { Prepared, SubmissionRequest } from './submit/prepared.ts';
import type { AdmitChild } from './submit/spawner.ts';
import type { AuditOptions } from './upkeep/audit-writer.ts';
import type { WrapHandler } from './work/registry.ts';

/** `E` is the engine. Its class is in a file that imports this one. */
export type EngineOptions<E> = {
  database: Database;
  profile: Policy;
  /** The rules of governed jobs. Default: those of the reference. */
  categories?: Categories;
  /** Validates the jobs that schedules submit and handlers spawn, by the rules of every door. */
  prepare: PrepareSubmission<E>;
  /** Throws if the org of a child has no room for it. Without it, children have no limit. */
  admitChild?: AdmitChild;
  /** The part of the connections for searches that one org may use while it is alone. */
  orgShare?: number;
  limits?: SubmissionLimits;
  /** The largest result of a job that runs here. Default: 1 MB. */
  maxResultBytes?: number;
  name?: string;
  /** How many jobs this process runs at the same time. */
  concurrency?: number;
  /** The percentage of the slots that only orgs may take of which the worker runs no job. Default 0. */
  reservePercent?: number;
  queues?: readonly string[];
  pollMs?: number;
  expireEveryMs?: number;
  /** The longest pause between two heartbeats. Short leases need shorter ones. */
  heartbeatMs?: number;
  /** Whether to end the process when its event loop stays blocked past the timeout of a handler. Default: true. */
  exitWhenBlocked?: boolean;
  /** How long a revoked API key is kept. Without it, this process removes none. */
  revokedKeysMs?: number;
  /** Wraps the handlers of the process, but not those of Millrace's own crews. */
  wrapHandler?: WrapHandler;
  /** The trace context of the code that submits a job without one. */
  activeTrace?: () => string | null;
  audit?: AuditOptions;
  /** How long the dead letter keeps its entries, and how long its actions can be undone. */
  deadLetters?: Partial<DeadLetterTerms>;
};

export type PrepareSubmission<E> = (engine: E, request: SubmissionRequest) => Prepared | Promise<Prepared>;
