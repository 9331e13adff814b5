import { SYSTEM_ORG_ID } from '../../core/delivery-policy.ts';
import { MAINTENANCE_POLICY, MAINTENANCE_TASK_NAMES, MAINTENANCE_TASKS, scheduleKeyOf, submissionOf } from '../../core/maintenance.ts';
import { wholeOrg } from '../../core/owner.ts';
import type { Engine } from '../../engine/engine.ts';
import { putSchedule } from '../schedules/put-schedule.ts';
import { allSchedules } from '../schedules/read-schedules.ts';

/** Sets up the schedules of tasks that have none, or another time. Whether a task is paused stays as it is. */
export async function putTasks(engine: Engine): Promise<void> {
  const owner = wholeOrg(SYSTEM_ORG_ID);
  const known = new Map((await allSchedules(engine, owner)).map(({ key, cron }) => [key, cron]));
  for (const name of MAINTENANCE_TASK_NAMES) {
    const key = scheduleKeyOf(name);
    const { cron } = MAINTENANCE_TASKS[name];
    if (known.get(key) === cron) continue;
    const schedule = { cron, timeZone: 'UTC', missed: 'one', overlap: 'skip', submission: submissionOf(name) } as const;
    const terms = { profile: MAINTENANCE_POLICY };
    await putSchedule(engine, { ...owner, key, schedule, terms, actor: 'system:maintenance', reason: null });
  }
}
