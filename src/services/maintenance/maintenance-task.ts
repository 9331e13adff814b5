import type { MaintenanceTaskName } from '../../core/maintenance.ts';

/** What one step of a task did. `hasMore`: another step may find more to do right now. */
export type TaskStep = { readonly removed: number; readonly hasMore: boolean };

/** The work of each task: one bounded step, which may be repeated at any time and by several processes. */
export type TaskSteps = Readonly<Record<MaintenanceTaskName, () => Promise<TaskStep>>>;

/** Pauses between steps, so that maintenance leaves the database to other work. */
export const STEP_PAUSE_MS = 100;
/** A run ends after this time, and the next one continues. */
export const RUN_MS = 240_000;
/** A run removes about this many rows at most. */
export const RUN_ROWS = 1_000_000;
