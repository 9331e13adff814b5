// The options of each call. A call refuses an option that is not in its table.
import { type DurationInput, durationMs } from '../core/duration.ts';
import { Issues } from '../core/issues.ts';
import { checkMembers, membersOf } from '../core/known-members.ts';
import { readWord } from '../core/submission-fields.ts';
import type { EngineEvents } from '../engine/events.ts';
import type { Queryable } from '../ledger/driver/statement.ts';
import { toQueryable, type UserClient } from '../ledger/driver/user-client.ts';
import type { Breakdown } from '../ledger/reads/count-jobs.ts';
import type { ReadLogsParams } from '../services/jobs/read-logs.ts';
import type { RetryParams } from '../services/jobs/retry-job.ts';

export type SubmitOptions = {
  /** A client inside your transaction: the job exists once that commits. */
  client?: UserClient;
};
export type SubmitManyOptions = SubmitOptions & { atomic?: boolean };
export type GetOptions = { includeResult?: boolean; includeHistory?: boolean };
export type StatsOptions = { timeRange?: DurationInput; breakdownBy?: readonly Breakdown[] };
export type CancelOptions = { reason?: string; force?: boolean };
export type CancelManyOptions = CancelOptions & { dryRun?: boolean };
export type RetryOptions = Partial<Pick<RetryParams, 'resetAttempts' | 'priority' | 'delay'>>;
export type FailureOptions = { includeAllAttempts?: boolean };
export type LogsOptions = Pick<ReadLogsParams, 'levels' | 'cursor' | 'limit'>;
export type FollowOptions = { signal?: AbortSignal };
export type WaitOptions = { timeout?: DurationInput; signal?: AbortSignal };
export type DrainOptions = { grace?: DurationInput };

export const OPTIONS = {
  submit: membersOf<SubmitOptions>({ client: true }),
  submitMany: membersOf<SubmitManyOptions>({ atomic: true, client: true }),
  get: membersOf<GetOptions>({ includeResult: true, includeHistory: true }),
  stats: membersOf<StatsOptions>({ timeRange: true, breakdownBy: true }),
  cancel: membersOf<CancelOptions>({ reason: true, force: true }),
  cancelMany: membersOf<CancelManyOptions>({ reason: true, force: true, dryRun: true }),
  retry: membersOf<RetryOptions>({ resetAttempts: true, priority: true, delay: true }),
  failure: membersOf<FailureOptions>({ includeAllAttempts: true }),
  logs: membersOf<LogsOptions>({ levels: true, cursor: true, limit: true }),
  follow: membersOf<FollowOptions>({ signal: true }),
  waitFor: membersOf<WaitOptions>({ timeout: true, signal: true }),
  drain: membersOf<DrainOptions>({ grace: true }),
} as const;

const EVENTS = membersOf<EngineEvents>({
  started: true,
  completed: true,
  failed: true,
  cancelled: true,
  postponed: true,
  lost: true,
  staged: true,
  rescued: true,
  failedWaiting: true,
  moved: true,
  released: true,
  unclaimed: true,
  progress: true,
  log: true,
  deduplicated: true,
  webhookAttempt: true,
  webhookDisabled: true,
  setAside: true,
  notificationLost: true,
  error: true,
});

/** Throws INVALID_REQUEST for an unknown event, and for a listener that is not a function. */
export function checkListener(event: unknown, listener: unknown): void {
  const issues = new Issues();
  readWord(event, { field: 'event', words: EVENTS }, issues);
  if (typeof listener !== 'function') issues.add('listener', 'INVALID_TYPE', 'must be a function');
  issues.throwIfAny();
}

/** The client of the caller's transaction, for statements of the ledger. */
export const queryable = ({ client }: SubmitOptions): Queryable | undefined => (client === undefined ? undefined : toQueryable(client));

const DRAIN_GRACE_MS = 30_000;

export function graceMs(options: DrainOptions): number {
  checkMembers(options, OPTIONS.drain);
  return options.grace === undefined ? DRAIN_GRACE_MS : durationMs(options.grace, 'grace');
}
