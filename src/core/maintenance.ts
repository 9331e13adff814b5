import { type Policy, PROFILES } from './policy.ts';

/** Maintenance runs as jobs of this type, in this queue and the org of the system. */
export const MAINTENANCE_TYPE = 'millrace.maintenance';
export const MAINTENANCE_QUEUE = 'q:maintenance';
const MAINTENANCE_PROFILE = 'maintenance';

type TaskSchedule = { readonly cron: string; readonly summary: string };

/** Every task, with the time of its runs in UTC. The seconds differ, so that they do not all begin together. */
export const MAINTENANCE_TASKS = {
  idempotency_keys: { cron: '5 */5 * * * *', summary: 'removes idempotency keys whose window is over' },
  jobs: { cron: '15 */5 * * * *', summary: 'removes jobs, batches and limits after their retention' },
  access: { cron: '25 */5 * * * *', summary: 'removes revoked keys after their retention' },
  history: { cron: '35 */5 * * * *', summary: 'drops days of the history that no job needs' },
  statistics: { cron: '45 */5 * * * *', summary: 'analyses the history for the planner, when that is due' },
  rollups: { cron: '55 */5 * * * *', summary: 'removes old sums' },
  webhook_deliveries: { cron: '10 */5 * * * *', summary: 'removes webhook deliveries after their retention' },
  ingest: { cron: '20 */5 * * * *', summary: 'removes ingest jobs after their retention or beyond their size' },
  streams: { cron: '30 */5 * * * *', summary: 'removes entries of the streams after their retention' },
  orphan_objects: { cron: '40 */5 * * * *', summary: 'removes objects of submissions that were never accepted' },
  partial_uploads: { cron: '50 7 * * * *', summary: 'removes the bytes of downloads that were never finished' },
  alerts: { cron: '50 17 * * * *', summary: 'removes alerts after their retention' },
  deleted_orgs: { cron: '0 * * * * *', summary: 'removes the data of orgs that are being deleted' },
} as const satisfies Record<string, TaskSchedule>;

export type MaintenanceTaskName = keyof typeof MAINTENANCE_TASKS;

export const MAINTENANCE_TASK_NAMES = Object.keys(MAINTENANCE_TASKS) as MaintenanceTaskName[];

export const isMaintenanceTask = (name: unknown): name is MaintenanceTaskName =>
  typeof name === 'string' && (MAINTENANCE_TASK_NAMES as string[]).includes(name);

const MINUTE_MS = 60_000;

/** The default policy. The jobs are kept for two days only, and wait as long as the queue is paused. */
export const MAINTENANCE_POLICY: Policy = Object.freeze({
  ...PROFILES.gopherqueue,
  profile: MAINTENANCE_PROFILE,
  timeoutMs: 10 * MINUTE_MS,
  leaseMs: MINUTE_MS,
  lifetimeMs: null,
  retentionMs: 2 * 24 * 60 * MINUTE_MS,
});

/** How many tasks run at the same time, over all processes. */
export const MAINTENANCE_CONCURRENCY = 2;

/** The key of the schedule of a task, in the org of the system. */
export const scheduleKeyOf = (name: string): string => `maintenance:${name}`;

/** The job that the schedule of a task submits. */
export const submissionOf = (name: MaintenanceTaskName) => ({
  type: MAINTENANCE_TYPE,
  queue: MAINTENANCE_QUEUE,
  category: 'maintenance' as const,
  payload: { task: name },
  limit: { key: 'maintenance', concurrency: MAINTENANCE_CONCURRENCY },
});
