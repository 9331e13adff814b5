import type pg from 'pg';
import { inTransaction } from './database.ts';
import { run, sqlStateOf, statement } from './statement.ts';

const ADVISORY_LOCK = 0x4d69_6c65; // "Mile"
const LOCK_NOT_AVAILABLE = '55P03';

const LOCK = statement('lock_partitions', 'SELECT pg_advisory_xact_lock($1::int8)');

// The days to come, and the days of rows that no partition was there for.
const MISSING = statement(
  'missing_partitions',
  `SELECT to_char(wanted.day, 'YYYYMMDD') AS day FROM (
     SELECT generate_series(date_trunc('day', millrace.clock() AT TIME ZONE 'UTC'),
       date_trunc('day', millrace.clock() AT TIME ZONE 'UTC') + $1::int4 * interval '1 day', interval '1 day') AS day
     UNION SELECT date_trunc('day', at AT TIME ZONE 'UTC') FROM millrace.records_default
   ) wanted
   WHERE to_regclass('millrace.records_' || to_char(wanted.day, 'YYYYMMDD')) IS NULL ORDER BY wanted.day`,
);

const PAST = statement(
  'past_partitions',
  `SELECT right(c.relname, 8) AS day FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
   WHERE i.inhparent = 'millrace.records'::regclass AND c.relname ~ '^records_[0-9]{8}$'
     AND to_date(right(c.relname, 8), 'YYYYMMDD') + 1 <= (millrace.clock() AT TIME ZONE 'UTC')::date
   ORDER BY c.relname`,
);

// Only the oldest job of each org is looked at, one step in the index for each: no index has the time of birth, and the table may
// be large. Numbers are drawn in the statement that tells the time, so those that cross are moments apart: hence the minute.
const SPOKEN_OF = statement(
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

/** Makes the partitions of today and the days ahead that are missing. Several processes may call it at once. */
export async function ensurePartitions(
  pool: pg.Pool,
  { daysAhead = 7 }: { daysAhead?: number } = {},
): Promise<string[]> {
  if ((await run<Day>(pool, MISSING, [daysAhead])).length === 0) return [];
  return inTransaction(pool, async (client) => {
    await run(client, LOCK, [ADVISORY_LOCK]);
    const days = await run<Day>(client, MISSING, [daysAhead]);
    for (const { day } of days) await createPartition(client, day);
    return days.map(({ day }) => nameOf(day));
  });
}

// DDL takes no parameters; the day comes from `to_char` and is eight digits. Filled before it is attached, because a
// partition cannot be attached while the default one holds rows of its day; the lock keeps new ones out meanwhile.
async function createPartition(client: pg.PoolClient, day: string): Promise<void> {
  const table = `millrace.${nameOf(day)}`;
  const { from, to } = boundsOf(day);
  await client.query('LOCK TABLE millrace.records_default IN ACCESS EXCLUSIVE MODE');
  await client.query(`CREATE TABLE ${table} (LIKE millrace.records INCLUDING ALL)`);
  await client.query(
    `WITH moved AS (DELETE FROM millrace.records_default WHERE at >= '${from}' AND at < '${to}' RETURNING *)
     INSERT INTO ${table} SELECT * FROM moved`,
  );
  await client.query(`ALTER TABLE millrace.records ATTACH PARTITION ${table} FOR VALUES FROM ('${from}') TO ('${to}')`);
}

/** Drops whole days, oldest first, that no job is left to speak of. A day that is in use is left for the next time. */
export async function dropOldPartitions(pool: pg.Pool): Promise<string[]> {
  const dropped: string[] = [];
  for (const { day } of await run<Day>(pool, PAST)) {
    const [spokenOf] = await run<{ found: boolean }>(pool, SPOKEN_OF, [day]);
    if (spokenOf?.found !== false || !(await dropPartition(pool, day))) break;
    dropped.push(nameOf(day));
  }
  return dropped;
}

// The drop locks the whole table for a moment. Whoever waits for that lock holds up every job, so it waits briefly.
async function dropPartition(pool: pg.Pool, day: string): Promise<boolean> {
  try {
    await inTransaction(pool, async (client) => {
      await client.query(`SET LOCAL lock_timeout = '100ms'`);
      await client.query(`DROP TABLE IF EXISTS millrace.${nameOf(day)}`);
    });
    return true;
  } catch (error) {
    if (sqlStateOf(error) === LOCK_NOT_AVAILABLE) return false;
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
