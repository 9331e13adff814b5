import { SYSTEM_ORG_ID } from '../../core/delivery-policy.ts';
import { MAINTENANCE_TYPE, type MaintenanceTaskName, scheduleKeyOf } from '../../core/maintenance.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';

const STARTED = statement(
  'note_maintenance_started',
  `INSERT INTO millrace.maintenance_tasks (name, last_job_id, last_started_at) VALUES ($1, $2::uuid, millrace.clock())
   ON CONFLICT (name) DO UPDATE SET last_job_id = excluded.last_job_id, last_started_at = excluded.last_started_at`,
);

const ENDED = statement(
  'note_maintenance_ended',
  `UPDATE millrace.maintenance_tasks SET runs = runs + 1, removed_total = removed_total + $2::int8, last_removed = $2::int8, has_more = $3::bool,
     last_ended_at = millrace.clock(), last_error = NULL WHERE name = $1`,
);

const FAILED = statement(
  'note_maintenance_failed',
  `UPDATE millrace.maintenance_tasks SET removed_total = removed_total + $2::int8, last_removed = $2::int8, last_ended_at = millrace.clock(),
     last_error = $3 WHERE name = $1`,
);

export async function noteTaskStarted(db: Queryable, { name, jobId }: { name: string; jobId: string | null }): Promise<void> {
  await run(db, STARTED, [name, jobId]);
}

export async function noteTaskEnded(db: Queryable, end: { name: string; removed: number; hasMore: boolean }): Promise<void> {
  await run(db, ENDED, [end.name, end.removed, end.hasMore]);
}

export async function noteTaskFailed(db: Queryable, end: { name: string; removed: number; message: string }): Promise<void> {
  await run(db, FAILED, [end.name, end.removed, end.message]);
}

// A run is late when its time has come and its job has not started. The job of an earlier run counts while it waits.
const LIST = statement(
  'list_maintenance_tasks',
  `SELECT n.name, s.cron, s.paused_at IS NOT NULL AS "isPaused", s.next_at AS "nextAt", s.last_job_id AS "lastJobId", j.state::text AS "jobState",
     j.completed_at IS NULL AND j.state IS NOT NULL AS "isOpen", coalesce(t.runs, 0) AS runs, coalesce(t.removed_total, 0) AS "removedTotal",
     t.last_started_at AS "lastStartedAt", t.last_ended_at AS "lastEndedAt", coalesce(t.last_removed, 0) AS "lastRemoved",
     coalesce(t.has_more, false) AS "hasMore", t.last_error AS "lastError",
     CASE WHEN s.paused_at IS NOT NULL OR s.key IS NULL THEN 0 ELSE greatest(0, extract(epoch FROM millrace.clock() - least(s.next_at,
       CASE WHEN j.state IN ('pending', 'delayed', 'scheduled', 'retrying') THEN coalesce(j.planned_at, j.created_at) END)))::float8 END AS "lagSeconds"
   FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS n(name, key, place)
   LEFT JOIN millrace.schedules s ON s.org_id = '${SYSTEM_ORG_ID}' AND s.key = n.key
   LEFT JOIN millrace.maintenance_tasks t ON t.name = n.name
   LEFT JOIN millrace.jobs j ON j.id = s.last_job_id
   ORDER BY n.place`,
);

export type MaintenanceTask = {
  readonly name: MaintenanceTaskName;
  /** Null: no process has set up the schedule. */
  readonly cron: string | null;
  readonly isPaused: boolean;
  readonly nextAt: Date | null;
  readonly lastJobId: string | null;
  readonly jobState: string | null;
  /** Whether its newest job has not ended. */
  readonly isOpen: boolean;
  /** Runs that ended without an error. */
  readonly runs: number;
  readonly removedTotal: number;
  readonly lastStartedAt: Date | null;
  readonly lastEndedAt: Date | null;
  readonly lastRemoved: number;
  /** The last run reached its bound, and the next one continues. */
  readonly hasMore: boolean;
  readonly lastError: string | null;
  /** How long the next run is overdue. */
  readonly lagSeconds: number;
};

export const listTasks = (db: Queryable, names: readonly MaintenanceTaskName[]): Promise<MaintenanceTask[]> =>
  run<MaintenanceTask>(db, LIST, [names, names.map(scheduleKeyOf)]);

const HAS_WORKER = statement(
  'has_maintenance_worker',
  `SELECT EXISTS (SELECT FROM millrace.workers w WHERE w.stopped_at IS NULL AND w.beat_at > millrace.clock() - interval '5 minutes'
     AND '${MAINTENANCE_TYPE}' = ANY (w.types)) AS found`,
);

/** Whether a process runs maintenance as jobs. Then the loops of all processes leave it to these jobs, which people can pause. */
export async function isMaintainedByJobs(db: Queryable): Promise<boolean> {
  return (await run<{ found: boolean }>(db, HAS_WORKER))[0]?.found === true;
}

const TAKE_TURN = statement(
  'take_maintenance_turn',
  `INSERT INTO millrace.maintenance_tasks AS t (name, last_started_at) VALUES ($1, millrace.clock())
   ON CONFLICT (name) DO UPDATE SET last_started_at = millrace.clock()
     WHERE t.last_started_at IS NULL OR NOT t.last_started_at BETWEEN millrace.clock() - $2::float8 * interval '1 ms' AND millrace.clock()
   RETURNING 1 AS one`,
);

/** Whether this process may do a round now: no process began one within `everyMs`. */
export async function takeTurn(db: Queryable, name: string, everyMs: number): Promise<boolean> {
  return (await run(db, TAKE_TURN, [name, everyMs])).length === 1;
}
