import { type Static, Type } from 'typebox';
import { MAINTENANCE_TASKS } from '../../core/maintenance.ts';
import { formatTimestamp } from '../../core/timestamp.ts';
import { listMaintenance, type MaintenanceTask, pauseTask, resumeTask, runTaskNow } from '../../services/maintenance/control-tasks.ts';
import type { Http } from '../door.ts';
import { bodyMayBeAbsent } from '../shared/route-options.ts';
import { answer } from '../shared/shapes.ts';
import { operatorAsking, requireEveryOrg } from './identity.ts';
import { MaintenanceTaskList, MaintenanceTaskView } from './maintenance-schemas.ts';
import type { OperatorParts } from './parts.ts';
import { Reason } from './schemas.ts';

const WHAT = 'Maintenance tasks';

const timeOrNull = (date: Date | null): string | null => (date === null ? null : formatTimestamp(date));

const render = (task: MaintenanceTask): Static<typeof MaintenanceTaskView> => ({
  name: task.name,
  summary: MAINTENANCE_TASKS[task.name].summary,
  cron: task.cron,
  paused: task.isPaused,
  state: !task.isOpen ? 'idle' : task.jobState === 'running' ? 'running' : 'waiting',
  last_job_id: task.lastJobId,
  last_started_at: timeOrNull(task.lastStartedAt),
  last_ended_at: timeOrNull(task.lastEndedAt),
  last_removed: task.lastRemoved,
  last_error: task.lastError,
  has_more: task.hasMore,
  runs: task.runs,
  removed_total: task.removedTotal,
  next_at: timeOrNull(task.nextAt),
  lag_seconds: Math.round(task.lagSeconds * 1_000) / 1_000,
});

const VERBS = {
  run: { summary: 'Run a maintenance task now', act: runTaskNow, status: 202, answer: 'Its job is submitted.' },
  pause: { summary: 'Start no more runs of a maintenance task', act: pauseTask, status: 200, answer: 'The task.' },
  resume: { summary: 'Let a maintenance task run again', act: resumeTask, status: 200, answer: 'The task.' },
} as const;

export function maintenanceRoutes(http: Http, { ingest, config }: OperatorParts): void {
  const list = {
    operationId: 'listMaintenanceTasks',
    summary: 'List the maintenance tasks with their last and next run',
    response: { 200: answer(MaintenanceTaskList, 'The tasks.') },
  };
  http.get('/maintenance', { schema: list, config }, async (request) => {
    requireEveryOrg(request, WHAT);
    return { items: (await listMaintenance(ingest.engine)).map(render), next_cursor: null };
  });
  const params = Type.Object({ name: Type.String({ description: 'The name of the task.' }) });
  for (const verb of Object.keys(VERBS) as (keyof typeof VERBS)[]) {
    const { summary, act, status, answer: meaning } = VERBS[verb];
    const response = { [status]: answer(MaintenanceTaskView, meaning) };
    const schema = { operationId: `${verb}MaintenanceTask`, summary, params, body: Reason, response };
    http.post(`/maintenance/:name/${verb}`, { schema, config, ...bodyMayBeAbsent }, async (request, reply) => {
      requireEveryOrg(request, WHAT);
      const task = await act(ingest.engine, { name: request.params.name, requester: operatorAsking(request, request.body.reason) });
      return reply.code(status).send(render(task));
    });
  }
}
