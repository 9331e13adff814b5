import { Cron } from 'croner';
import type pg from 'pg';
import { PAUSES } from '../../core/backoff.ts';
import { AppError, isAppError } from '../../core/errors.ts';
import { PROFILES } from '../../core/policy.ts';
import { DEFAULT_LIMITS, normalizeSubmission, type Submission } from '../../core/submission.ts';
import { type Database, inTransaction } from '../../ledger/driver/database.ts';
import { isUnavailable } from '../../ledger/driver/statement.ts';
import {
  advanceSchedule,
  type DueReference,
  type DueSchedule,
  dueSchedules,
  lockDueSchedule,
  type Missed,
  type Schedule,
} from '../../ledger/queues/schedules.ts';
import type { EventHub } from '../events.ts';
import { LoopService } from '../loop.ts';
import { FailureDelays } from './failure-delays.ts';

const PAGE = 500;
const POLL_MS = 500;
/** How long a schedule waits for a lock of another transaction. It is short, because the schedules of all orgs share the round. */
const LOCK_WAIT_MS = 10;
/** A schedule that missed more scheduled runs catches up in several rounds, so that each transaction stays small. */
const MAX_RUNS_PER_ROUND = 100;

export type SchedulerOptions = {
  database: Database;
  events: EventHub;
  /** Submits inside the transaction that advances the schedule. Throws INVALID_REQUEST for a job that cannot be accepted. */
  submitIn(client: pg.PoolClient, orgId: string, submission: Submission): Promise<void>;
};

/**
 * Submits recurring jobs. One transaction advances a schedule and submits its jobs, with the row locked, so that
 * several processes never submit the same scheduled run twice. Each schedule has its own transaction. If it fails, the schedule
 * stays due, is retried with a growing delay, and does not delay the others.
 */
export class Scheduler extends LoopService {
  readonly #options: SchedulerOptions;
  readonly #delays = new FailureDelays<string>(PAUSES.itemFailed);

  constructor(options: SchedulerOptions) {
    super({ name: 'scheduler', events: options.events });
    this.#options = options;
  }

  async round(): Promise<number> {
    const { maintenance } = this.#options.database;
    let fired = 0;
    let after: DueReference | null = null;
    do {
      const page: DueReference[] = await dueSchedules(maintenance, after, PAGE);
      fired += await this.#fireEach(page);
      after = page.length === PAGE ? (page.at(-1) ?? null) : null;
    } while (after !== null);
    return fired > 0 ? 0 : POLL_MS;
  }

  /** If two schedules in a row cannot reach the database, the round ends. The others stay due. */
  async #fireEach(page: readonly DueReference[]): Promise<number> {
    let fired = 0;
    let wasUnavailable = false;
    for (const due of page) {
      if (this.#delays.isWaiting(nameOf(due))) continue;
      try {
        fired += await this.#fire(due);
        this.#delays.succeeded(nameOf(due));
        wasUnavailable = false;
      } catch (error) {
        this.#delays.failed(nameOf(due));
        const isAway = isUnavailable(error);
        if (isAway && wasUnavailable) throw error;
        wasUnavailable = isAway;
        this.#report(due, error);
      }
    }
    return fired;
  }

  #fire(due: DueReference): Promise<number> {
    return inTransaction(
      this.#options.database.maintenance,
      async (client) => {
        const locked = await lockDueSchedule(client, due);
        return locked === null ? 0 : this.#fireLocked(client, locked);
      },
      { lockTimeoutMs: LOCK_WAIT_MS },
    );
  }

  async #fireLocked(client: pg.PoolClient, { schedule, now }: DueSchedule): Promise<number> {
    const { times, nextAt } = dueTimes(schedule, now);
    const accepted: Date[] = [];
    let refusal: AppError | null = null;
    for (const time of times) {
      const refused = await this.#submit(client, schedule, time);
      if (refused === null) accepted.push(time);
      refusal ??= refused;
    }
    const { orgId, key } = schedule;
    await advanceSchedule(client, { orgId, key, nextAt, firedAt: accepted.at(-1) ?? null });
    if (refusal !== null) this.#report(schedule, refusal);
    return accepted.length;
  }

  /**
   * Returns the error of a job that is invalid, so that the schedule skips this scheduled run. Any other failure is
   * thrown, and no scheduled run is skipped.
   */
  async #submit(client: pg.PoolClient, schedule: Schedule, time: Date): Promise<AppError | null> {
    try {
      await this.#options.submitIn(client, schedule.orgId, submissionFor(schedule, time));
      return null;
    } catch (error) {
      if (isAppError(error, 'INVALID_REQUEST') && acceptsPlainJobs()) return error;
      throw error;
    }
  }

  #report({ key }: { key: string }, error: unknown): void {
    this.#options.events.emit('error', { error, where: `schedule ${key}` });
  }
}

const nameOf = ({ orgId, key }: DueReference): string => `${orgId} ${key}`;

/** If this process refuses even the simplest job, the fault is in the process and not in the schedule. */
function acceptsPlainJobs(): boolean {
  const params = { nowMs: Date.now(), limits: DEFAULT_LIMITS, profile: PROFILES.gopherqueue };
  return normalizeSubmission({ type: 'plain', payload: {} }, params).ok;
}

/** Validates a cron expression and its time zone, and returns the first time after `from`. */
export function firstRun(params: { cron: string; timeZone: string; from: Date }): Date {
  const next = cronOf(params).nextRun(params.from);
  if (next !== null) return next;
  throw new AppError('INVALID_REQUEST', { message: `The cron expression "${params.cron}" never matches a time.` });
}

/** Returns the due times of a schedule, as its policy for missed runs says, and the time of the next scheduled run. */
export function dueTimes(
  schedule: { cron: string; timeZone: string; missed: Missed; nextAt: Date },
  now: Date,
): { times: Date[]; nextAt: Date } {
  const cron = cronOf(schedule);
  const times: Date[] = [];
  let at: Date | null = schedule.nextAt;
  while (at !== null && at <= now && times.length < MAX_RUNS_PER_ROUND) {
    times.push(at);
    at = cron.nextRun(at);
  }
  if (schedule.missed === 'all') return { times, nextAt: at ?? FAR_FUTURE };
  const nextAt = cron.nextRun(now) ?? FAR_FUTURE;
  const isLate = times.length > 1 || now.getTime() - schedule.nextAt.getTime() > LATE_MS;
  if (schedule.missed === 'none' && isLate) {
    const latest = times.at(-1) as Date;
    return { times: now.getTime() - latest.getTime() <= LATE_MS ? [latest] : [], nextAt };
  }
  return { times: times.slice(-1), nextAt };
}

/** A scheduled run later than this was missed, because no process was running when it was due. */
const LATE_MS = 60_000;
const FAR_FUTURE = new Date('9999-12-31T00:00:00Z');

function cronOf({ cron, timeZone }: { cron: string; timeZone: string }): Cron {
  try {
    new Intl.DateTimeFormat('en', { timeZone }); // The library checks a time zone only on first use.
    return new Cron(cron, { timezone: timeZone, paused: true });
  } catch (cause) {
    const message = cause instanceof Error ? cause.message : String(cause);
    throw new AppError('INVALID_REQUEST', {
      message: `The schedule "${cron}" (${timeZone}) is not valid: ${message}`,
      cause,
    });
  }
}

// The key makes a repeated scheduled run harmless, even if another ledger submitted the first.
function submissionFor(schedule: Schedule, time: Date): Submission {
  const submission = schedule.submission as Submission;
  return { ...submission, idempotencyKey: `schedule:${schedule.key}:${time.toISOString()}`.slice(0, 256) };
}
