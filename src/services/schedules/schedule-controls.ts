import { AppError } from '../../core/errors.ts';
import { checkMembers, membersOf } from '../../core/known-members.ts';
import { wholeOrg } from '../../core/owner.ts';
import type { Engine } from '../../engine/engine.ts';
import type { Schedule } from '../../ledger/queues/schedules.ts';
import { nextRuns } from './next-runs.ts';
import { pauseSchedule, resumeSchedule } from './pause-schedule.ts';
import { putSchedule } from './put-schedule.ts';
import { allSchedules, listSchedules, readSchedule, type ScheduleList } from './read-schedules.ts';
import { removeSchedule } from './remove-schedule.ts';
import { runSchedule } from './run-schedule.ts';
import type { ScheduleRequest } from './schedule-request.ts';

type RunCall = <T>(work: () => Promise<T>) => Promise<T>;

type ReasonOptions = {
  /** Why, for those who look at the schedule later. */
  reason?: string;
};
type PageOptions = {
  /** How many schedules at most, 1 to 1000. Default 100. */
  limit?: number;
  /** The `nextCursor` of the page before. */
  cursor?: string | null;
};

/** The result of a run by hand. */
type RunResult = {
  /** The id of the job that was submitted. */
  jobId: string;
};

const REASON = membersOf<ReasonOptions>({ reason: true });
const PAGE = membersOf<PageOptions>({ limit: true, cursor: true });

export type { Schedule };

/** Reads and controls the schedules of an org. A change applies to all processes. */
export class ScheduleControls {
  readonly #engine: Engine;
  readonly #orgId: string;
  readonly #run: RunCall;

  /** `run` starts each call, or refuses it. Without it, every call starts. */
  constructor(engine: Engine, orgId: string, run: RunCall = (work) => work()) {
    this.#engine = engine;
    this.#orgId = orgId;
    this.#run = run;
  }

  /** Creates a schedule, or replaces the one with the same key, as `Millrace.schedule` does. */
  put(key: string, schedule: ScheduleRequest): Promise<Schedule> {
    return this.#run(async () => (await putSchedule(this.#engine, { ...this.#by(key, {}), schedule })).schedule);
  }

  /** Returns all schedules. */
  all(): Promise<Schedule[]> {
    return this.#run(() => allSchedules(this.#engine, wholeOrg(this.#orgId)));
  }

  /** Returns a page of schedules in the order of their keys, with the cursor of the next page. */
  list(page: PageOptions = {}): Promise<ScheduleList> {
    return this.#run(async () => {
      checkMembers(page, PAGE, 'page');
      return listSchedules(this.#engine, { ...wholeOrg(this.#orgId), ...page });
    });
  }

  /** Returns a schedule, or null if there is none with this key. */
  get(key: string): Promise<Schedule | null> {
    return this.#run(() => readSchedule(this.#engine, this.#named(key)));
  }

  /** Stops a schedule from submitting jobs. Jobs that it submitted continue. Throws NOT_FOUND if there is none with this key. */
  pause(key: string, options: ReasonOptions = {}): Promise<Schedule> {
    return this.#run(async () => found(key, await pauseSchedule(this.#engine, this.#by(key, options))));
  }

  /** Lets a schedule submit jobs again, from its next time on. Throws NOT_FOUND if there is none with this key. */
  resume(key: string, options: ReasonOptions = {}): Promise<Schedule> {
    return this.#run(async () => found(key, await resumeSchedule(this.#engine, this.#by(key, options))));
  }

  /**
   * Submits the job of a schedule now and returns its id. The next scheduled run stays the same. Throws NOT_FOUND if there is none
   * with this key, and CONFLICT if `overlap` is `skip` and an earlier job has not ended.
   */
  run(key: string, options: ReasonOptions = {}): Promise<RunResult> {
    return this.#run(async () => found(key, await runSchedule(this.#engine, this.#by(key, options))));
  }

  /** Returns the next times of a schedule, 10 by default and at most 100. Throws NOT_FOUND if there is none with this key. */
  next(key: string, count?: number): Promise<Date[]> {
    return this.#run(async () => found(key, await nextRuns(this.#engine, { ...this.#named(key), count })));
  }

  /** Removes a schedule. Jobs that it submitted continue. Returns whether it existed. */
  remove(key: string): Promise<boolean> {
    return this.#run(async () => (await removeSchedule(this.#engine, this.#named(key))) !== null);
  }

  #named(key: string) {
    return { ...wholeOrg(this.#orgId), key };
  }

  #by(key: string, options: ReasonOptions) {
    checkMembers(options, REASON);
    return { ...this.#named(key), actor: null, reason: options.reason ?? null };
  }
}

export const noSuchSchedule = (key: string): AppError =>
  new AppError('NOT_FOUND', { message: `The schedule "${String(key).slice(0, 100)}" does not exist. Check its key.` });

function found<T>(key: string, result: T | null): T {
  if (result === null) throw noSuchSchedule(key);
  return result;
}
