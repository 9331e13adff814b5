import { PermanentError } from '../core/handler-errors.ts';
import { isMaintenanceTask, MAINTENANCE_TASK_NAMES, MAINTENANCE_TYPE, type MaintenanceTaskName } from '../core/maintenance.ts';

/** The part of the handler context that a task needs. */
type TaskContext = { readonly jobId: string; readonly signal: AbortSignal };

type RunTask = (task: { name: MaintenanceTaskName; jobId: string; signal: AbortSignal }) => Promise<{ removed: number; hasMore: boolean }>;

/** The registration of maintenance. */
export function maintenanceRegistration<Context extends TaskContext>(run: RunTask) {
  return {
    type: MAINTENANCE_TYPE,
    handler: ({ jobId, signal }: Context, payload: unknown) => run({ name: taskOf(payload), jobId, signal }),
  };
}

function taskOf(payload: unknown): MaintenanceTaskName {
  const task = (payload as { task?: unknown } | null)?.task;
  if (isMaintenanceTask(task)) return task;
  // A later version may have more tasks.
  const names = MAINTENANCE_TASK_NAMES.join(', ');
  throw new PermanentError(`the payload names no maintenance task of this version; the tasks are ${names}`, { code: 'UNKNOWN_TASK' });
}
