import type { Owner } from '../../core/owner.ts';
import type { Missed, Overlap } from '../../core/schedule-words.ts';
import { invalidCursor, readPageCursor, writePageCursor } from '../driver/page-cursor.ts';
import { sealOf } from '../driver/seal.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';

/** The members of a schedule that its owner chooses. */
export type ScheduleToPut = {
  /** The name that the owner chose. */
  key: string;
  /** Five or six fields, or a nickname such as `@daily`. */
  cron: string;
  /** The zone whose clocks the cron expression refers to. */
  timeZone: string;
  /** How many jobs to submit for scheduled runs that were missed. */
  missed: Missed;
  /** What a scheduled run does while the job of an earlier run has not ended. */
  overlap: Overlap;
  /** The job to submit. */
  submission: unknown;
  /** The next scheduled run. It does not happen while the schedule is paused. */
  nextAt: Date;
};

/** A schedule that submits a job repeatedly. */
export type Schedule = ScheduleToPut & {
  /** The org of its jobs. */
  orgId: string;
  /** The project of its jobs, if they belong to one. */
  projectId: string | null;
  /** Since when it is paused. Null if it is not. */
  pausedAt: Date | null;
  /** The scheduled run of its newest job. Null before the first. */
  lastFiredAt: Date | null;
  /** The newest job that it submitted. */
  lastJobId: string | null;
  /** The newest run that was skipped because an earlier job had not ended. */
  lastSkippedAt: Date | null;
  /** How many runs were skipped for this reason. */
  skipped: number;
  /** When it was created. */
  createdAt: Date;
  /** When it was last changed. */
  updatedAt: Date;
  /** Who changed it last, as `api_key:<id>`. Null if a program did, through the library. */
  updatedBy: string | null;
  /** The reason that was given for the last change. */
  reason: string | null;
};

export const SCHEDULE_COLUMNS = `s.org_id AS "orgId", s.project_id AS "projectId", s.key, s.cron, s.time_zone AS "timeZone", s.missed, s.overlap, s.submission,
  s.next_at AS "nextAt", s.paused_at AS "pausedAt", s.last_fired_at AS "lastFiredAt", s.last_job_id AS "lastJobId",
  s.last_skipped_at AS "lastSkippedAt", s.skipped::float8 AS "skipped", s.created_at AS "createdAt",
  coalesce(s.updated_at, s.created_at) AS "updatedAt", s.updated_by AS "updatedBy", s.reason`;

/** The schedule with key $2 that the owner ($1, $3) reaches. */
const REACHED = 's.org_id = $1::uuid AND s.key = $2 AND ($3::uuid IS NULL OR s.project_id = $3::uuid)';

const FIND = statement('find_schedule', `SELECT ${SCHEDULE_COLUMNS} FROM millrace.schedules s WHERE ${REACHED}`);

const LOCK = statement(
  'lock_schedule',
  `SELECT ${SCHEDULE_COLUMNS}, millrace.clock() AS now FROM millrace.schedules s WHERE ${REACHED} FOR UPDATE`,
);

const REMOVE = statement('remove_schedule', `DELETE FROM millrace.schedules s WHERE ${REACHED} RETURNING ${SCHEDULE_COLUMNS}`);

// A page ends early when its submissions are large. Its first row is always returned, so that every page makes progress. `found` counts the
// rows up to one after the page.
const LIST = statement(
  'list_schedules',
  `SELECT ${SCHEDULE_COLUMNS}, k.found FROM (
     SELECT p.key, sum(p.size) OVER (ORDER BY p.key) - p.size AS bytes_before, count(*) OVER ()::int4 AS found FROM (
       SELECT key, size FROM millrace.schedules
       WHERE org_id = $1::uuid AND ($2::uuid IS NULL OR project_id = $2::uuid) AND key > $3::text ORDER BY key LIMIT $4::int4 + 1) p) k
   JOIN millrace.schedules s ON s.org_id = $1::uuid AND s.key = k.key
   WHERE k.bytes_before < $5::int8 ORDER BY s.key LIMIT $4::int4`,
);

export async function findSchedule(db: Queryable, { orgId, projectId }: Owner, key: string): Promise<Schedule | null> {
  const [row] = await run<Schedule>(db, FIND, [orgId, key, projectId]);
  return row ?? null;
}

/** A locked schedule, and the time of the database's clock. */
export type LockedSchedule = { schedule: Schedule; now: Date };

/** Locks a schedule until the transaction ends. Returns null if the owner has none with this key. */
export async function lockSchedule(client: Queryable, { orgId, projectId }: Owner, key: string): Promise<LockedSchedule | null> {
  const [row] = await run<Schedule & { now: Date }>(client, LOCK, [orgId, key, projectId]);
  return row === undefined ? null : lockedOf(row);
}

export const lockedOf = ({ now, ...schedule }: Schedule & { now: Date }): LockedSchedule => ({ schedule, now });

/** Returns the schedule that was removed, or null if the owner has none with this key. */
export async function removeSchedule(db: Queryable, { orgId, projectId }: Owner, key: string): Promise<Schedule | null> {
  const [row] = await run<Schedule>(db, REMOVE, [orgId, key, projectId]);
  return row ?? null;
}

export type SchedulePage = { limit: number; cursor: string | null };

/** How many bytes of submissions a page has at most, unless its first schedule is larger. */
const PAGE_BYTES = 4_000_000;

/** Returns a page of the schedules of an owner, in the order of their keys. */
export async function listSchedules(
  db: Queryable,
  owner: Owner,
  { limit, cursor }: SchedulePage,
): Promise<{ schedules: Schedule[]; nextCursor: string | null }> {
  const { orgId, projectId } = owner;
  const scope = { list: 'SCHEDULES', orgId, filter: { projectId } } as const;
  const seal = await sealOf(db);
  const [after] = cursor === null ? [''] : readPageCursor(seal, scope, cursor);
  if (typeof after !== 'string') throw invalidCursor();
  const rows = await run<Schedule & { found: number }>(db, LIST, [orgId, projectId, after, limit, PAGE_BYTES]);
  const last = rows.at(-1);
  const hasMore = last !== undefined && last.found > rows.length;
  return {
    schedules: rows.map(({ found: _, ...schedule }) => schedule),
    nextCursor: hasMore ? writePageCursor(seal, scope, [last.key]) : null,
  };
}
