import type { Owner } from '../../core/owner.ts';
import type { Overlap } from '../../core/schedule-words.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';
import { SCHEDULE_COLUMNS, type Schedule, type ScheduleToPut } from './schedules.ts';

// $11: the most schedules that the org may have, or null. $8: whether it is paused; null keeps that as it is.
const INSERT = `INSERT INTO millrace.schedules AS s (org_id, key, cron, time_zone, missed, submission, next_at, paused_at, overlap, created_at,
    updated_at, updated_by, reason)
  SELECT $1::uuid, $2::text, $3::text, $4::text, $5::text, $6::json, $7::timestamptz, CASE WHEN $8::bool THEN millrace.clock() END, $9::text,
    millrace.clock(), millrace.clock(), $10::text, $12::text
  WHERE $11::int4 IS NULL OR EXISTS (SELECT FROM millrace.schedules WHERE org_id = $1::uuid AND key = $2::text)
    OR (SELECT count(*) FROM millrace.schedules WHERE org_id = $1::uuid) < $11::int4`;

const CREATE = statement(
  'create_schedule',
  `${INSERT} ON CONFLICT (org_id, key) DO NOTHING RETURNING ${SCHEDULE_COLUMNS}, true AS "isNew"`,
);

// A process that restarts puts the same schedule again. It keeps its next time, even if that has passed. A schedule that is
// resumed does not catch up. $13: the project that the caller is bound to, or null.
const PUT = statement(
  'put_schedule',
  `${INSERT}
   ON CONFLICT (org_id, key) DO UPDATE SET cron = excluded.cron, time_zone = excluded.time_zone, missed = excluded.missed,
     submission = excluded.submission, overlap = excluded.overlap, updated_at = millrace.clock(), updated_by = excluded.updated_by,
     reason = excluded.reason,
     paused_at = CASE WHEN $8::bool IS NULL THEN s.paused_at WHEN $8::bool THEN coalesce(s.paused_at, millrace.clock()) END,
     next_at = CASE WHEN s.cron = excluded.cron AND s.time_zone = excluded.time_zone AND NOT (s.paused_at IS NOT NULL AND $8::bool IS FALSE)
       THEN s.next_at ELSE excluded.next_at END
   WHERE $13::uuid IS NULL OR s.project_id = $13::uuid
   RETURNING ${SCHEDULE_COLUMNS}, xmax = 0 AS "isNew"`,
);

const EXISTS = statement('schedule_exists', 'SELECT FROM millrace.schedules WHERE org_id = $1::uuid AND key = $2');

const CHANGE = statement(
  'change_schedule',
  `UPDATE millrace.schedules s SET cron = $3, time_zone = $4, missed = $5, submission = $6::json, next_at = $7::timestamptz,
     paused_at = CASE WHEN $8::bool THEN coalesce(s.paused_at, millrace.clock()) END, overlap = $9, updated_at = millrace.clock(),
     updated_by = $10, reason = $11
   WHERE s.org_id = $1::uuid AND s.key = $2 RETURNING ${SCHEDULE_COLUMNS}`,
);

/** Who changes a schedule, and why. */
export type Author = { actor: string | null; reason: string | null; requestId?: string | null };

export type PutParams = Author & {
  owner: Owner;
  schedule: ScheduleToPut & { overlap: Overlap };
  /** Null keeps a schedule that exists as it is, and creates one that is not paused. */
  isPaused: boolean | null;
  /** The most schedules that the org may have. Null: no limit. */
  most: number | null;
};

/** `taken`: there is a schedule with this key, which the owner may not reach. `full`: the org has as many schedules as it may have. */
export type PutSchedule = { kind: 'created' | 'replaced'; schedule: Schedule } | { kind: 'taken' } | { kind: 'full' };

/** Creates a schedule, unless there is one with this key. */
export const createSchedule = (db: Queryable, params: PutParams): Promise<PutSchedule> => write(db, CREATE, params, []);

/** Creates or replaces a schedule. */
export const putSchedule = (db: Queryable, params: PutParams): Promise<PutSchedule> => write(db, PUT, params, [params.owner.projectId]);

async function write(db: Queryable, made: typeof CREATE, params: PutParams, more: unknown[]): Promise<PutSchedule> {
  const { owner, schedule, isPaused, most, actor, reason } = params;
  const { key, cron, timeZone, missed, submission, nextAt, overlap } = schedule;
  const values = [owner.orgId, key, cron, timeZone, missed, JSON.stringify(submission), nextAt, isPaused, overlap, actor, most, reason];
  const [row] = await run<Schedule & { isNew: boolean }>(db, made, [...values, ...more]);
  if (row === undefined) return (await run(db, EXISTS, [owner.orgId, key])).length > 0 ? { kind: 'taken' } : { kind: 'full' };
  const { isNew, ...put } = row;
  return { kind: isNew ? 'created' : 'replaced', schedule: put };
}

export type ChangeParams = Author & { orgId: string; schedule: ScheduleToPut; isPaused: boolean };

/** Changes a schedule that the transaction of the client has locked. */
export async function changeSchedule(client: Queryable, params: ChangeParams): Promise<Schedule> {
  const { orgId, schedule, isPaused, actor, reason } = params;
  const { key, cron, timeZone, missed, submission, nextAt, overlap } = schedule;
  const values = [orgId, key, cron, timeZone, missed, JSON.stringify(submission), nextAt, isPaused, overlap, actor, reason];
  return (await run<Schedule>(client, CHANGE, values))[0] as Schedule;
}
