import { Cron } from 'croner';
import type pg from 'pg';
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
import { Periodic } from '../periodic.ts';
import { Postponements } from './postponements.ts';

const PAGE = 500;
const POLL_MS = 500;
/** How long a schedule waits for a lock that another transaction holds. The schedules of all orgs share the round. */
const LOCK_WAIT_MS = 10;
/** A schedule that was missed this often is caught up in several rounds, so that one transaction stays small. */
const MAX_RUNS_PER_ROUND = 100;

export type SchedulerOptions = {
  database: Database;
  events: EventHub;
  /** Submits inside the transaction that moves the schedule on. Throws INVALID_REQUEST for a job that cannot be accepted. */
  submitIn(client: pg.PoolClient, orgId: string, submission: Submission): Promise<void>;
};

/**
 * Fires recurring jobs. Moving a schedule on and submitting its jobs are one transaction on a locked row, so several
 * processes never fire the same time twice. Each schedule has its own transaction: one that fails stays due, is retried later
 * with a growing delay, and delays no other.
 */
export class Scheduler extends Periodic {
  readonly #options: SchedulerOptions;
  readonly #postponed = new Postponements();

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

  /** Two in a row that cannot reach the database end the round: the loop waits, and the others keep their place. */
  async #fireEach(page: readonly DueReference[]): Promise<number> {
    let fired = 0;
    let wasUnavailable = false;
    for (const due of page) {
      if (this.#postponed.has(nameOf(due))) continue;
      try {
        fired += await this.#fire(due);
        this.#postponed.delete(nameOf(due));
        wasUnavailable = false;
      } catch (error) {
        this.#postponed.add(nameOf(due));
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

  /** Returns the refusal of a job that is itself invalid, which skips its turn. Any other failure is thrown and skips nothing. */
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

/** Where even the plainest job is refused, the fault lies in this process, and no schedule is to blame. */
function acceptsPlainJobs(): boolean {
  const params = { nowMs: Date.now(), limits: DEFAULT_LIMITS, profile: PROFILES.gopherqueue };
  return normalizeSubmission({ type: 'plain', payload: {} }, params).ok;
}

/** Checks a cron expression and its time zone, and answers the first time after `from`. */
export function firstRun(params: { cron: string; timeZone: string; from: Date }): Date {
  const next = cronOf(params).nextRun(params.from);
  if (next !== null) return next;
  throw new AppError('INVALID_REQUEST', { message: `The cron expression "${params.cron}" never comes due.` });
}

/** The times of a schedule that are due, as its policy for missed ones says, and the next one after them. */
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

/** A run later than this was missed: no process was there to fire it. */
const LATE_MS = 60_000;
const FAR_FUTURE = new Date('9999-12-31T00:00:00Z');

function cronOf({ cron, timeZone }: { cron: string; timeZone: string }): Cron {
  try {
    new Intl.DateTimeFormat('en', { timeZone }); // The library looks at a zone only when it needs it.
    return new Cron(cron, { timezone: timeZone, paused: true });
  } catch (cause) {
    const message = cause instanceof Error ? cause.message : String(cause);
    throw new AppError('INVALID_REQUEST', {
      message: `The schedule "${cron}" (${timeZone}) cannot be read: ${message}`,
      cause,
    });
  }
}

// The key makes a repeat of the same time harmless even if it came from another ledger.
function submissionFor(schedule: Schedule, time: Date): Submission {
  const submission = schedule.submission as Submission;
  return { ...submission, idempotencyKey: `schedule:${schedule.key}:${time.toISOString()}`.slice(0, 256) };
}
