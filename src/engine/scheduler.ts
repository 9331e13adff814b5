import { Cron } from 'croner';
import type pg from 'pg';
import { AppError, isAppError } from '../core/errors.ts';
import type { Submission } from '../core/submission.ts';
import { type Database, inSavepoint, inTransaction } from '../ledger/database.ts';
import { advanceSchedule, dueSchedules, type Missed, type Schedule } from '../ledger/schedules.ts';
import { isContended } from '../ledger/statement.ts';
import type { EventHub } from './events.ts';
import { Periodic } from './periodic.ts';

const LIMIT = 50;
const POLL_MS = 500;
/** How long a round, which serves the schedules of all orgs, waits for a lock that another transaction holds. */
const LOCK_WAIT_MS = 5;
/** A schedule that was missed this often is caught up in several rounds, so that one transaction stays small. */
const MAX_RUNS_PER_ROUND = 100;

export type SchedulerOptions = {
  database: Database;
  events: EventHub;
  /** Submits inside the transaction that moves the schedule on. */
  submitIn(client: pg.PoolClient, orgId: string, submission: Submission): Promise<void>;
  onFired(): void;
};

/**
 * Fires recurring jobs. Moving a schedule on and submitting its job are one transaction on a locked row, so several
 * processes never fire the same time twice.
 */
export class Scheduler extends Periodic {
  readonly #options: SchedulerOptions;
  /** How many schedules of the last round stay due because another transaction holds what their jobs need. */
  #held = 0;

  constructor(options: SchedulerOptions) {
    super({ name: 'scheduler', events: options.events });
    this.#options = options;
  }

  async round(): Promise<number> {
    const fired = await inTransaction(this.#options.database.maintenance, (client) => this.#fireAll(client), {
      lockTimeoutMs: LOCK_WAIT_MS,
    });
    if (fired > 0) this.#options.onFired();
    return fired > 0 ? 0 : POLL_MS;
  }

  async #fireAll(client: pg.PoolClient): Promise<number> {
    let count = 0;
    let held = 0;
    // Held schedules are the longest due and come first. They must not fill the round.
    for (const { schedule, now } of await dueSchedules(client, LIMIT + this.#held)) {
      const fired = await this.#fireOrSkip(client, schedule, now);
      if (fired === null) held++;
      else count += fired;
    }
    this.#held = held;
    return count;
  }

  /**
   * A schedule whose job is refused skips its turn: it must not keep the others from theirs. Null: another transaction holds a key or a
   * job that its job needs, and it stays due.
   */
  async #fireOrSkip(client: pg.PoolClient, schedule: Schedule, now: Date): Promise<number | null> {
    try {
      return await inSavepoint(client, () => this.#fire(client, schedule, now));
    } catch (error) {
      if (isContended(error)) return null;
      if (!isAppError(error, 'INVALID_REQUEST')) throw error;
      this.#options.events.emit('error', { error, where: `schedule ${schedule.key}` });
      const nextAt = cronOf(schedule).nextRun(now) ?? FAR_FUTURE;
      await advanceSchedule(client, { orgId: schedule.orgId, key: schedule.key, nextAt, firedAt: null });
      return 0;
    }
  }

  async #fire(client: pg.PoolClient, schedule: Schedule, now: Date): Promise<number> {
    const { times, nextAt } = dueTimes(schedule, now);
    for (const time of times) await this.#options.submitIn(client, schedule.orgId, submissionFor(schedule, time));
    await advanceSchedule(client, { orgId: schedule.orgId, key: schedule.key, nextAt, firedAt: times.at(-1) ?? null });
    return times.length;
  }
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
