import { setTimeout as delay } from 'node:timers/promises';
import { type Queryable, run, statement } from './statement.ts';

// Whoever has not written yet draws its numbers with the statement it is at, or later. A statement of one of our pools
// draws them within its timeout of 5 s.
const HORIZON = statement(
  'search_horizon',
  `SELECT millrace.clock() - interval '5 seconds'
     - (now() - least(now(), min(CASE WHEN backend_xid IS NULL THEN query_start ELSE xact_start END))) AS settled_before
   FROM pg_stat_activity
   WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
     AND (backend_xid IS NOT NULL OR state = 'active')`,
);

/** Jobs created before this have no lower one to come. */
export async function settledBefore(db: Queryable): Promise<Date | undefined> {
  return (await run<{ settled_before: Date }>(db, HORIZON))[0]?.settled_before;
}

const PAUSES_MS = [0, 2, 8, 30] as const;

// Whoever has not written yet has drawn no number before the statement it is at.
const RUNNING = statement(
  'search_running',
  `SELECT clock_timestamp()::text AS now, EXISTS (
     SELECT FROM pg_stat_activity
     WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
       AND (backend_xid IS NOT NULL OR state = 'active')
       AND CASE WHEN backend_xid IS NULL THEN query_start ELSE xact_start END < coalesce($1::timestamptz, 'infinity')) AS is_running`,
);

type Row = { now: string; is_running: boolean };

/** Whether everything that ran when this was asked is over. Waits a moment for it: most of it takes a few milliseconds. */
export async function hasEnded(db: Queryable): Promise<boolean> {
  let since: string | null = null;
  for (const pauseMs of PAUSES_MS) {
    if (pauseMs > 0) await delay(pauseMs);
    const [row]: Row[] = await run<Row>(db, RUNNING, [since]);
    if (row?.is_running === false) return true;
    since ??= row?.now ?? null;
  }
  return false;
}
