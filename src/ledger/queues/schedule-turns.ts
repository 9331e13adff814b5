import { type Queryable, run, statement } from '../driver/statement.ts';
import { type LockedSchedule, lockedOf, SCHEDULE_COLUMNS, type Schedule } from './schedules.ts';

const DUE = statement(
  'due_schedules',
  `SELECT org_id AS "orgId", key, next_at::text AS at FROM millrace.schedules
   WHERE paused_at IS NULL AND next_at <= millrace.clock()
     AND (next_at, org_id, key) > (coalesce($1::timestamptz, '-infinity'), $2::uuid, $3::text)
   ORDER BY next_at, org_id, key LIMIT $4::int4`,
);

const LOCK_DUE = statement(
  'lock_due_schedule',
  `SELECT ${SCHEDULE_COLUMNS}, millrace.clock() AS now FROM millrace.schedules s
   WHERE s.org_id = $1::uuid AND s.key = $2 AND s.paused_at IS NULL AND s.next_at <= millrace.clock() FOR UPDATE SKIP LOCKED`,
);

const ADVANCE = statement(
  'advance_schedule',
  `UPDATE millrace.schedules SET next_at = $3::timestamptz, last_fired_at = coalesce($4::timestamptz, last_fired_at),
     last_job_id = coalesce($5::uuid, last_job_id), last_skipped_at = coalesce($6::timestamptz, last_skipped_at), skipped = skipped + $7::int8
   WHERE org_id = $1::uuid AND key = $2`,
);

// Reads the oldest jobs and forgets those that have ended, so that the next turn need not look at them again.
const OPEN_JOBS = statement(
  'open_jobs_of_schedule',
  `WITH looked AS MATERIALIZED (
     SELECT r.seq, j.id, j.state < 'completed' AS is_open FROM millrace.schedule_jobs r
     LEFT JOIN millrace.jobs j ON j.org_id = r.org_id AND j.seq = r.seq
     WHERE r.org_id = $1::uuid AND r.key = $2 ORDER BY r.seq LIMIT $3::int4
   ), forgotten AS (
     DELETE FROM millrace.schedule_jobs r USING looked l
     WHERE r.org_id = $1::uuid AND r.key = $2 AND r.seq = l.seq AND l.is_open IS NOT TRUE RETURNING r.seq
   )
   SELECT id, (SELECT count(*)::int4 FROM forgotten) AS forgotten, NULL::bigint AS seq FROM (SELECT NULL::uuid AS id) none
   UNION ALL SELECT id, NULL, seq FROM looked WHERE is_open ORDER BY seq NULLS FIRST`,
);

const REMEMBER = statement(
  'remember_job_of_schedule',
  `INSERT INTO millrace.schedule_jobs (org_id, key, seq)
   SELECT j.org_id, $2::text, j.seq FROM millrace.jobs j WHERE j.id = $3::uuid AND (j.org_id = $1::uuid) IS TRUE ON CONFLICT DO NOTHING`,
);

/** Identifies a due schedule and its position among the others. */
export type DueReference = { orgId: string; key: string; at: string };

const NIL = '00000000-0000-0000-0000-000000000000';

/** Returns the due schedules of all orgs, earliest first. `after` is the last one of the previous page. */
export async function dueSchedules(db: Queryable, after: DueReference | null, limit: number): Promise<DueReference[]> {
  const from = after === null ? [null, NIL, ''] : [after.at, after.orgId, after.key];
  return run<DueReference>(db, DUE, [...from, limit]);
}

/** Locks a schedule that is still due; call it inside a transaction. Returns null if another process holds it or has fired it. */
export async function lockDueSchedule(client: Queryable, { orgId, key }: DueReference): Promise<LockedSchedule | null> {
  const [row] = await run<Schedule & { now: Date }>(client, LOCK_DUE, [orgId, key]);
  return row === undefined ? null : lockedOf(row);
}

export type ScheduleAdvance = {
  orgId: string;
  key: string;
  nextAt: Date;
  /** The newest run that submitted a job, and that job. */
  fired: { at: Date; jobId: string } | null;
  /** The runs that were skipped because an earlier job had not ended. */
  skippedAt: readonly Date[];
};

export async function advanceSchedule(client: Queryable, { orgId, key, nextAt, fired, skippedAt }: ScheduleAdvance): Promise<void> {
  const values = [orgId, key, nextAt, fired?.at ?? null, fired?.jobId ?? null, skippedAt.at(-1) ?? null, skippedAt.length];
  await run(client, ADVANCE, values);
}

type ScheduleKey = { readonly orgId: string; readonly key: string };

/**
 * Returns the ids of at most `limit` jobs of a schedule that have not ended, oldest first. Call it in the transaction that
 * locked the schedule. `isAll` is false if there may be more.
 */
export async function openJobs(
  client: Queryable,
  { orgId, key }: ScheduleKey,
  limit: number,
): Promise<{ ids: string[]; forgotten: number; isAll: boolean }> {
  const rows = await run<{ id: string; forgotten: number | null }>(client, OPEN_JOBS, [orgId, key, limit]);
  const [note, ...open] = rows;
  const forgotten = note?.forgotten ?? 0;
  return { ids: open.map(({ id }) => id), forgotten, isAll: open.length + forgotten < limit };
}

/** Counts a job as one of the schedule until it has ended. */
export async function rememberJob(client: Queryable, { orgId, key }: ScheduleKey, jobId: string): Promise<void> {
  await run(client, REMEMBER, [orgId, key, jobId]);
}
