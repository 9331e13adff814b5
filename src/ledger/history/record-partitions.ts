import type pg from 'pg';
import { PARTITION_LOCK, waitForLock } from '../driver/advisory-locks.ts';
import { inTransaction } from '../driver/database.ts';
import { run, sqlStateOf, statement } from '../driver/statement.ts';

const LOCK_NOT_AVAILABLE = '55P03';
/** A statement that waits for a lock on the whole history blocks every job after it. So it waits briefly and is tried again later. */
const LOCK_TIMEOUT = `SET LOCAL lock_timeout = '80ms'`;
/** How many rows are moved out of the default partition while the history is locked, about 100 ms. A day with more rows stays there. */
const MAX_MOVED = 10_000;
const MAX_SWEPT = 10_000;

const LOCK = statement('lock_partitions', `SELECT ${waitForLock(PARTITION_LOCK)}`);

// The next days, and the days of rows in the default partition.
const MISSING = statement(
  'missing_partitions',
  `WITH held AS (
     SELECT date_trunc('day', at AT TIME ZONE 'UTC') AS day, count(*) AS records FROM millrace.records_default GROUP BY 1
   )
   SELECT to_char(wanted.day, 'YYYYMMDD') AS day FROM (
     SELECT generate_series(date_trunc('day', millrace.clock() AT TIME ZONE 'UTC'),
       date_trunc('day', millrace.clock() AT TIME ZONE 'UTC') + $1::int4 * interval '1 day', interval '1 day') AS day
     UNION SELECT day FROM held
   ) wanted LEFT JOIN held ON held.day = wanted.day
   WHERE to_regclass('millrace.records_' || to_char(wanted.day, 'YYYYMMDD')) IS NULL AND coalesce(held.records, 0) <= $2::int8
   ORDER BY wanted.day`,
);

const PAST = statement(
  'past_partitions',
  `SELECT right(c.relname, 8) AS day FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
   WHERE i.inhparent = 'millrace.records'::regclass AND c.relname ~ '^records_[0-9]{8}$'
     AND to_date(right(c.relname, 8), 'YYYYMMDD') + 1 <= (millrace.clock() AT TIME ZONE 'UTC')::date
   ORDER BY c.relname`,
);

// The oldest past day that has rows in the default partition.
const OLDEST_DEFAULT = statement(
  'oldest_default_day',
  `SELECT to_char(min(at) AT TIME ZONE 'UTC', 'YYYYMMDD') AS day FROM millrace.records_default
   HAVING (min(at) AT TIME ZONE 'UTC')::date + 1 <= (millrace.clock() AT TIME ZONE 'UTC')::date`,
);

const SWEEP_DEFAULT = statement(
  'sweep_default_day',
  `DELETE FROM millrace.records_default WHERE ctid = ANY (ARRAY(
     SELECT ctid FROM millrace.records_default
     WHERE at < (to_date($1, 'YYYYMMDD') + 1)::timestamp AT TIME ZONE 'UTC' LIMIT $2::int4)) RETURNING 1 AS one`,
);

// Looks only at the oldest job of each org, with one index lookup for each. There is no index on the creation time, and the table may be
// large. A statement draws job numbers and reads the clock at almost the same time, so the order can differ by moments: hence the minute.
const HAS_JOBS = statement(
  'jobs_before_day_end',
  `WITH RECURSIVE day AS (
     SELECT (to_date($1, 'YYYYMMDD') + 1)::timestamp AT TIME ZONE 'UTC' + interval '1 minute' AS until
   ), oldest AS (
     (SELECT org_id, created_at FROM millrace.jobs ORDER BY org_id, seq LIMIT 1)
     UNION ALL
     SELECT n.org_id, n.created_at FROM oldest o CROSS JOIN LATERAL (
       SELECT org_id, created_at FROM millrace.jobs WHERE org_id > o.org_id ORDER BY org_id, seq LIMIT 1) n
     WHERE o.created_at >= (SELECT until FROM day)
   )
   SELECT EXISTS (SELECT FROM oldest WHERE created_at < (SELECT until FROM day)) AS found`,
);

type Day = { day: string };

export type EnsuredPartitions = {
  made: string[];
  /** False if a lock of another session, such as a dump, blocked a partition. Try again later. */
  isComplete: boolean;
};

/**
 * Creates the missing partitions of today and the next days. Several processes may call it at the same time. The default partition takes the
 * rows of a missing one, so a lock that is not free soon is not an error.
 */
export async function ensurePartitions(
  pool: pg.Pool,
  { daysAhead = 7, maxMoved = MAX_MOVED }: { daysAhead?: number; maxMoved?: number } = {},
): Promise<EnsuredPartitions> {
  const made: string[] = [];
  for (;;) {
    const [next] = await run<Day>(pool, MISSING, [daysAhead, maxMoved]);
    if (next === undefined) return { made, isComplete: true };
    const outcome = await unlessLocked(pool, async (client) => {
      await run(client, LOCK);
      const missing = await run<Day>(client, MISSING, [daysAhead, maxMoved]);
      if (!missing.some(({ day }) => day === next.day)) return 'there';
      await createPartition(client, next.day);
      return 'made';
    });
    if (outcome === null) return { made, isComplete: false };
    if (outcome === 'made') made.push(nameOf(next.day));
  }
}

// DDL takes no parameters. The day comes from `to_char` and has eight digits. The rows of the day are moved first, because a partition
// cannot be attached while the default one has rows of its day. The parent is locked as well. Otherwise a statement that looked up the
// partitions before the attachment could miss the moved rows, or route a row to the default partition and fail.
async function createPartition(client: pg.PoolClient, day: string): Promise<void> {
  const table = `millrace.${nameOf(day)}`;
  const { from, to } = boundsOf(day);
  await client.query(`CREATE TABLE ${table} (LIKE millrace.records INCLUDING ALL)`);
  await client.query('LOCK TABLE ONLY millrace.records IN ACCESS EXCLUSIVE MODE');
  await client.query('LOCK TABLE millrace.records_default IN ACCESS EXCLUSIVE MODE');
  await client.query(
    `WITH moved AS (DELETE FROM millrace.records_default WHERE at >= '${from}' AND at < '${to}' RETURNING *)
     INSERT INTO ${table} SELECT * FROM moved`,
  );
  await client.query(`ALTER TABLE millrace.records ATTACH PARTITION ${table} FOR VALUES FROM ('${from}') TO ('${to}')`);
}

/** Drops the partitions of past days that have no job left, oldest first. A locked partition is left for the next call. */
export async function dropOldPartitions(pool: pg.Pool): Promise<string[]> {
  const dropped: string[] = [];
  for (const { day } of await run<Day>(pool, PAST)) {
    const [jobs] = await run<{ found: boolean }>(pool, HAS_JOBS, [day]);
    if (jobs?.found !== false || !(await dropPartition(pool, day))) break;
    dropped.push(nameOf(day));
  }
  return dropped;
}

async function dropPartition(pool: pg.Pool, day: string): Promise<boolean> {
  const outcome = await unlessLocked(pool, async (client) => {
    await client.query(`DROP TABLE IF EXISTS millrace.${nameOf(day)}`);
    return 'dropped';
  });
  return outcome !== null;
}

/**
 * Deletes rows of the default partition from the oldest past day, if that day has no job left. Returns their number. Call again while
 * it reaches the limit.
 */
export async function sweepDefaultPartition(pool: pg.Pool, limit = MAX_SWEPT): Promise<number> {
  const [oldest] = await run<Day>(pool, OLDEST_DEFAULT);
  if (oldest === undefined) return 0;
  const [jobs] = await run<{ found: boolean }>(pool, HAS_JOBS, [oldest.day]);
  if (jobs?.found !== false) return 0;
  return (await run(pool, SWEEP_DEFAULT, [oldest.day, limit])).length;
}

/** Runs `work` in a transaction. Returns null, and changes nothing, if a lock was not free in time. */
async function unlessLocked<T>(pool: pg.Pool, work: (client: pg.PoolClient) => Promise<T>): Promise<T | null> {
  try {
    return await inTransaction(pool, async (client) => {
      await client.query(LOCK_TIMEOUT);
      return work(client);
    });
  } catch (error) {
    if (sqlStateOf(error) === LOCK_NOT_AVAILABLE) return null;
    throw error;
  }
}

function nameOf(day: string): string {
  if (!/^\d{8}$/.test(day)) throw new RangeError(`not a day: ${day}`);
  return `records_${day}`;
}

function boundsOf(day: string): { from: string; to: string } {
  const start = Date.UTC(Number(day.slice(0, 4)), Number(day.slice(4, 6)) - 1, Number(day.slice(6, 8)));
  return { from: new Date(start).toISOString(), to: new Date(start + 86_400_000).toISOString() };
}
