import type pg from 'pg';
import { PAUSES } from '../../core/backoff.ts';
import { AppError, isAppError } from '../../core/errors.ts';
import { PROFILES } from '../../core/policy.ts';
import type { Missed } from '../../core/schedule-words.ts';
import { DEFAULT_LIMITS, normalizeSubmission } from '../../core/submission.ts';
import { type Database, inTransaction } from '../../ledger/driver/database.ts';
import { isUnavailable } from '../../ledger/driver/statement.ts';
import { advanceSchedule, type DueReference, dueSchedules, lockDueSchedule } from '../../ledger/queues/schedule-turns.ts';
import type { LockedSchedule, Schedule } from '../../ledger/queues/schedules.ts';
import type { EventHub } from '../events.ts';
import { LoopService } from '../loop.ts';
import { type Moves, reportMoves } from '../report-moves.ts';
import { CronTimes, FAR_FUTURE } from './cron-times.ts';
import { FailureDelays } from './failure-delays.ts';
import type { ScheduleTurns, Turn, TurnRequest } from './schedule-turns.ts';

const PAGE = 500;
const POLL_MS = 500;
/** How long a schedule waits for a lock of another transaction. It is short, because the schedules of all orgs share the round. */
const LOCK_WAIT_MS = 10;
/** A schedule that missed more scheduled runs catches up in several rounds, so that each transaction stays small. */
const MAX_RUNS_PER_ROUND = 100;

export type SchedulerOptions = { database: Database; events: EventHub; turns: Pick<ScheduleTurns, 'take'> };

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

  async #fire(due: DueReference): Promise<number> {
    const moves: Moves = [];
    const fired = await inTransaction(
      this.#options.database.maintenance,
      async (client) => {
        const locked = await lockDueSchedule(client, due);
        return locked === null ? 0 : this.#fireLocked(client, locked, moves);
      },
      { lockTimeoutMs: LOCK_WAIT_MS },
    );
    reportMoves(this.#options.events, moves);
    return fired;
  }

  async #fireLocked(client: pg.PoolClient, { schedule, now }: LockedSchedule, moves: Moves): Promise<number> {
    const { times, nextAt } = dueTimes(schedule, now);
    let fired: { at: Date; jobId: string } | null = null;
    const skippedAt: Date[] = [];
    let refusal: AppError | null = null;
    for (const at of times) {
      const idempotencyKey = keyOf(schedule, at);
      const turn = await this.#take(client, { schedule, plannedAt: at, idempotencyKey, actor: ACTOR, moves });
      if (turn instanceof AppError) refusal ??= turn;
      else if (turn.kind === 'skipped') skippedAt.push(at);
      else fired = { at, jobId: turn.jobId };
    }
    const { orgId, key } = schedule;
    await advanceSchedule(client, { orgId, key, nextAt, fired, skippedAt });
    if (refusal !== null) this.#report(schedule, refusal);
    return times.length;
  }

  /**
   * Returns the error of a job that is invalid, so that the schedule skips this scheduled run. Any other failure is
   * thrown, and no scheduled run is skipped.
   */
  async #take(client: pg.PoolClient, request: TurnRequest): Promise<Turn | AppError> {
    try {
      return await this.#options.turns.take(client, request);
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
export function firstRun({ from, ...schedule }: { cron: string; timeZone: string; from: Date }): Date {
  const next = new CronTimes(schedule).next(from);
  if (next !== null) return next;
  const message = `The cron expression "${schedule.cron}" never matches a time.`;
  throw new AppError('INVALID_REQUEST', { message, details: [{ field: 'cron', code: 'INVALID_VALUE', message }] });
}

/** Returns the due times of a schedule, as its policy for missed runs says, and the time of the next scheduled run. */
export function dueTimes(
  schedule: { cron: string; timeZone: string; missed: Missed; nextAt: Date },
  now: Date,
): { times: Date[]; nextAt: Date } {
  const cron = new CronTimes(schedule);
  const times: Date[] = [];
  let at: Date | null = schedule.nextAt;
  while (at !== null && at <= now && times.length < MAX_RUNS_PER_ROUND) {
    times.push(at);
    at = cron.next(at);
  }
  if (schedule.missed === 'all') return { times, nextAt: at ?? FAR_FUTURE };
  const nextAt = cron.next(now) ?? FAR_FUTURE;
  const isLate = times.length > 1 || now.getTime() - schedule.nextAt.getTime() > LATE_MS;
  if (schedule.missed === 'none' && isLate) {
    const latest = times.at(-1) as Date;
    return { times: now.getTime() - latest.getTime() <= LATE_MS ? [latest] : [], nextAt };
  }
  return { times: times.slice(-1), nextAt };
}

/** A scheduled run later than this was missed, because no process was running when it was due. */
const LATE_MS = 60_000;
const ACTOR = 'system:scheduler';

// The key makes a repeated scheduled run harmless, even if another ledger submitted the first.
const keyOf = ({ key }: Schedule, time: Date): string => `schedule:${key}:${time.toISOString()}`.slice(0, 256);
