import { setTimeout as delay } from 'node:timers/promises';
import type { MaintenanceTaskName } from '../../core/maintenance.ts';
import { maskSecrets } from '../../core/mask-secrets.ts';
import type { Database } from '../../ledger/driver/database.ts';
import { noteTaskEnded, noteTaskFailed, noteTaskStarted } from '../../ledger/upkeep/maintenance-tasks.ts';
import { RUN_MS, RUN_ROWS, STEP_PAUSE_MS, type TaskSteps } from './maintenance-task.ts';

export type TaskRun = { readonly removed: number; readonly hasMore: boolean };

export type RunTaskParams = { readonly name: MaintenanceTaskName; readonly jobId: string | null; readonly signal: AbortSignal };

type Bounds = { readonly runMs: number; readonly runRows: number; readonly pauseMs: number };

const BOUNDS: Bounds = { runMs: RUN_MS, runRows: RUN_ROWS, pauseMs: STEP_PAUSE_MS };

/**
 * Repeats the step of a task until nothing is left, the bound of time or rows is reached, or the job is asked to stop. It pauses between
 * steps. A run that ends early loses nothing: each step is complete, and the next run continues.
 */
export async function runTask(
  { database, steps, bounds = BOUNDS }: { database: Database; steps: TaskSteps; bounds?: Bounds },
  { name, jobId, signal }: RunTaskParams,
): Promise<TaskRun> {
  const { maintenance } = database;
  await noteTaskStarted(maintenance, { name, jobId });
  const endsAtMs = performance.now() + bounds.runMs;
  let removed = 0;
  try {
    for (;;) {
      signal.throwIfAborted();
      const step = await steps[name]();
      removed += step.removed;
      const hasRoom = removed < bounds.runRows && performance.now() < endsAtMs;
      if (!step.hasMore || !hasRoom) {
        await noteTaskEnded(maintenance, { name, removed, hasMore: step.hasMore });
        return { removed, hasMore: step.hasMore };
      }
      await delay(bounds.pauseMs, undefined, { signal }).catch(() => signal.throwIfAborted());
    }
  } catch (error) {
    const message = maskSecrets(error instanceof Error ? error.message : String(error)).slice(0, 500);
    // If the database is away, the job fails, and that is written later.
    await noteTaskFailed(maintenance, { name, removed, message }).catch(() => {});
    throw error;
  }
}
