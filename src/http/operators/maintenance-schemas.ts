import { Type } from 'typebox';
import { named, shape, textOrNull, timestampOrNull, word } from '../shared/shapes.ts';

export const MaintenanceTaskView = shape('MaintenanceTask', {
  name: Type.String({ examples: ['idempotency_keys'] }),
  summary: Type.String({ description: 'What the task does.' }),
  cron: textOrNull('When it runs, in UTC, with seconds; null: no process has set it up.'),
  paused: Type.Boolean({ description: 'Whether it starts no more runs.' }),
  state: word(['idle', 'waiting', 'running'], 'Of its newest job: it has ended, it waits for a worker, or it runs.'),
  last_job_id: textOrNull('The newest job of the task.'),
  last_started_at: timestampOrNull('When the last run began.'),
  last_ended_at: timestampOrNull('When the last run ended.'),
  last_removed: Type.Integer({ description: 'What the last run removed: rows, partitions or objects.' }),
  last_error: textOrNull('Why the last run failed; null if it did not.'),
  has_more: Type.Boolean({ description: 'The last run reached its bound of time or rows, and the next one continues.' }),
  runs: Type.Integer({ description: 'Runs that ended without an error.' }),
  removed_total: Type.Integer(),
  next_at: timestampOrNull('The next run.'),
  lag_seconds: Type.Number({ description: 'How long a run is overdue; 0 if it is not, or the task is paused.' }),
});

export const MaintenanceTaskList = shape('MaintenanceTaskList', {
  items: Type.Array(named(MaintenanceTaskView)),
  next_cursor: textOrNull('Always null: all tasks are on one page.'),
});
