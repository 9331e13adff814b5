import type { Owner } from '../../core/owner.ts';
import type { Engine } from '../../engine/engine.ts';
import type { Schedule } from '../../ledger/queues/schedules.ts';
import { changeSchedule } from './change-schedule.ts';
import type { Author } from './schedule-request.ts';

type PauseParams = Owner & Author & { key: string };

/** Stops a schedule from submitting jobs. Jobs that it submitted continue. Returns null if the owner has no such schedule. */
export const pauseSchedule = (engine: Engine, params: PauseParams): Promise<Schedule | null> =>
  changeSchedule(engine, { ...params, change: { paused: true } });

/** Lets a schedule submit jobs again, from its next scheduled run on. */
export const resumeSchedule = (engine: Engine, params: PauseParams): Promise<Schedule | null> =>
  changeSchedule(engine, { ...params, change: { paused: false } });
