import { type Queryable, run, statement } from '../driver/statement.ts';

const COLUMNS = `org_id AS "orgId", key, cron, time_zone AS "timeZone", missed, submission, next_at AS "nextAt",
     last_fired_at AS "lastFiredAt", created_at AS "createdAt"`;

const PUT = statement(
  'put_schedule',
  `INSERT INTO millrace.schedules AS s (org_id, key, cron, time_zone, missed, submission, next_at, created_at)
   VALUES ($1::uuid, $2, $3, $4, $5, $6::json, $7::timestamptz, millrace.clock())
   ON CONFLICT (org_id, key) DO UPDATE SET cron = excluded.cron, time_zone = excluded.time_zone, missed = excluded.missed,
     submission = excluded.submission,
     -- A process that restarts puts the same schedule again. It keeps its next time, even if that has passed.
     next_at = CASE WHEN s.cron = excluded.cron AND s.time_zone = excluded.time_zone THEN s.next_at ELSE excluded.next_at END
   RETURNING ${COLUMNS}`,
);

const REMOVE = statement('remove_schedule', 'DELETE FROM millrace.schedules WHERE org_id = $1::uuid AND key = $2 RETURNING key');

const LIST = statement('list_schedules', `SELECT ${COLUMNS} FROM millrace.schedules WHERE org_id = $1::uuid ORDER BY key`);

const DUE = statement(
  'due_schedules',
  `SELECT org_id AS "orgId", key, next_at::text AS at FROM millrace.schedules
   WHERE next_at <= millrace.clock() AND (next_at, org_id, key) > (coalesce($1::timestamptz, '-infinity'), $2::uuid, $3::text)
   ORDER BY next_at, org_id, key LIMIT $4::int4`,
);

const LOCK_DUE = statement(
  'lock_due_schedule',
  `SELECT ${COLUMNS}, millrace.clock() AS now FROM millrace.schedules
   WHERE org_id = $1::uuid AND key = $2 AND next_at <= millrace.clock() FOR UPDATE SKIP LOCKED`,
);

const ADVANCE = statement(
  'advance_schedule',
  `UPDATE millrace.schedules SET next_at = $3::timestamptz, last_fired_at = coalesce($4::timestamptz, last_fired_at)
   WHERE org_id = $1::uuid AND key = $2`,
);

/** How to handle scheduled runs that came due while no process ran. */
export type Missed = 'none' | 'one' | 'all';

export type ScheduleToPut = {
  key: string;
  cron: string;
  timeZone: string;
  missed: Missed;
  submission: unknown;
  nextAt: Date;
};

/** A schedule that submits a job repeatedly. */
export type Schedule = ScheduleToPut & {
  /** The org of its jobs. */
  orgId: string;
  /** When it last submitted a job. Null before the first time. */
  lastFiredAt: Date | null;
  /** When it was created. */
  createdAt: Date;
};

export async function putSchedule(db: Queryable, orgId: string, schedule: ScheduleToPut): Promise<Schedule> {
  const { key, cron, timeZone, missed, submission, nextAt } = schedule;
  const values = [orgId, key, cron, timeZone, missed, JSON.stringify(submission), nextAt];
  return (await run<Schedule>(db, PUT, values))[0] as Schedule;
}

export async function removeSchedule(db: Queryable, orgId: string, key: string): Promise<boolean> {
  const rows = await run(db, REMOVE, [orgId, key]);
  return rows.length === 1;
}

export async function listSchedules(db: Queryable, orgId: string): Promise<Schedule[]> {
  return run<Schedule>(db, LIST, [orgId]);
}

/** A schedule that is due, and the time of the database's clock. */
export type DueSchedule = { schedule: Schedule; now: Date };

/** Identifies a due schedule and its position among the others. */
export type DueReference = { orgId: string; key: string; at: string };

const NIL = '00000000-0000-0000-0000-000000000000';

/** Returns the due schedules of all orgs, earliest first. `after` is the last one of the previous page. */
export async function dueSchedules(db: Queryable, after: DueReference | null, limit: number): Promise<DueReference[]> {
  const from = after === null ? [null, NIL, ''] : [after.at, after.orgId, after.key];
  return run<DueReference>(db, DUE, [...from, limit]);
}

/** Locks a schedule that is still due; call it inside a transaction. Returns null if another process holds it or has fired it. */
export async function lockDueSchedule(client: Queryable, { orgId, key }: DueReference): Promise<DueSchedule | null> {
  const [row] = await run<Schedule & { now: Date }>(client, LOCK_DUE, [orgId, key]);
  if (row === undefined) return null;
  const { now, ...schedule } = row;
  return { schedule, now };
}

export type ScheduleAdvance = { orgId: string; key: string; nextAt: Date; firedAt: Date | null };

export async function advanceSchedule(client: Queryable, { orgId, key, nextAt, firedAt }: ScheduleAdvance): Promise<void> {
  await run(client, ADVANCE, [orgId, key, nextAt, firedAt]);
}
