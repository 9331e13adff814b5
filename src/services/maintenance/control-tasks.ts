import { randomUUID } from 'node:crypto';
import { SYSTEM_ORG_ID } from '../../core/delivery-policy.ts';
import { AppError } from '../../core/errors.ts';
import { NIL_ORG_ID, type Requester } from '../../core/governance/audit-action.ts';
import { isMaintenanceTask, MAINTENANCE_TASK_NAMES, type MaintenanceTaskName, scheduleKeyOf } from '../../core/maintenance.ts';
import { suggestion } from '../../core/nearest-name.ts';
import { wholeOrg } from '../../core/owner.ts';
import type { Engine } from '../../engine/engine.ts';
import { firstRun } from '../../engine/upkeep/scheduler.ts';
import { recordActions } from '../../ledger/audit/record-action.ts';
import { changeSchedule } from '../../ledger/queues/put-schedule.ts';
import { advanceSchedule } from '../../ledger/queues/schedule-turns.ts';
import { type LockedSchedule, lockSchedule } from '../../ledger/queues/schedules.ts';
import { listTasks, type MaintenanceTask } from '../../ledger/upkeep/maintenance-tasks.ts';

export type { MaintenanceTask };

export const listMaintenance = ({ database }: Pick<Engine, 'database'>): Promise<MaintenanceTask[]> =>
  listTasks(database.api, MAINTENANCE_TASK_NAMES);

export type ControlParams = { readonly name: string; readonly requester: Requester };

type Client = Parameters<Parameters<Engine['writer']['transact']>[1]>[0];

/** Submits the job of a task now, even if the task is paused. Throws CONFLICT while an earlier job has not ended. */
export const runTaskNow = (engine: Engine, params: ControlParams): Promise<MaintenanceTask> =>
  control(engine, { ...params, event: 'maintenance.run' }, async (client, { schedule, now: plannedAt }) => {
    const { key, nextAt } = schedule;
    // A task replaces no job: its schedule skips while one has not ended.
    const request = { schedule, plannedAt, idempotencyKey: `${key}:${randomUUID()}`, actor: params.requester.actor, moves: [] };
    const turn = await engine.scheduleTurns.take(client, request);
    if (turn.kind === 'skipped') {
      const message = `The task "${params.name}" has a job that has not ended: ${turn.openJobId}. Wait for it. If it does not start, see whether the queue q:maintenance is paused.`;
      throw new AppError('CONFLICT', { message });
    }
    await advanceSchedule(client, { orgId: SYSTEM_ORG_ID, key, nextAt, fired: { at: plannedAt, jobId: turn.jobId }, skippedAt: [] });
  });

/** Starts no more runs of a task. A run in progress ends. */
export const pauseTask = (engine: Engine, params: ControlParams): Promise<MaintenanceTask> => setPaused(engine, params, true);

/** Lets a task run again, from its next time on. */
export const resumeTask = (engine: Engine, params: ControlParams): Promise<MaintenanceTask> => setPaused(engine, params, false);

function setPaused(engine: Engine, params: ControlParams, isPaused: boolean): Promise<MaintenanceTask> {
  const event = isPaused ? 'maintenance.paused' : 'maintenance.resumed';
  return control(engine, { ...params, event }, async (client, { schedule, now }) => {
    const nextAt = schedule.pausedAt !== null && !isPaused ? firstRun({ ...schedule, from: now }) : schedule.nextAt;
    const { actor, reason = null } = params.requester;
    await changeSchedule(client, { orgId: SYSTEM_ORG_ID, schedule: { ...schedule, nextAt }, isPaused, actor, reason });
  });
}

/** Changes the schedule of a task and writes the audit row, in one transaction. */
async function control(
  engine: Engine,
  { name, requester, event }: ControlParams & { event: string },
  change: (client: Client, locked: LockedSchedule) => Promise<void>,
): Promise<MaintenanceTask> {
  const task = requireTask(name);
  await engine.writer.transact(SYSTEM_ORG_ID, async (client) => {
    const locked = await lockSchedule(client, wholeOrg(SYSTEM_ORG_ID), scheduleKeyOf(task));
    if (locked === null) throw notSetUp(task);
    await change(client, locked);
    await recordActions(client, [{ orgId: NIL_ORG_ID, event, requester, details: { task } }]);
  });
  return (await listTasks(engine.database.api, [task]))[0] as MaintenanceTask;
}

function requireTask(name: string): MaintenanceTaskName {
  if (isMaintenanceTask(name)) return name;
  const near = suggestion(name.slice(0, 100), MAINTENANCE_TASK_NAMES);
  throw new AppError('NOT_FOUND', {
    message: `There is no maintenance task "${name.slice(0, 100)}"${near}. See GET /operators/maintenance.`,
  });
}

const notSetUp = (name: string): AppError =>
  new AppError('CONFLICT', {
    message: `The task "${name}" has no schedule yet. A process that runs "millrace up", "serve" or "work" creates it at its start.`,
  });
