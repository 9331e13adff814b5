import { SERVES_JOB } from '../attempts/workers.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';

// One snapshot over everything that the engine's loops read, so that a job between two of them is always seen. A scheduled job counts
// only if a live worker may take it, not if it has no handler, is paused, capped at zero or waits for a slot of a rate.
const HAS_DUE = statement(
  'has_due_work',
  `SELECT EXISTS (SELECT FROM millrace.jobs WHERE state = 'running' AND NOT is_held)
  OR EXISTS (SELECT FROM millrace.releases)
  OR EXISTS (SELECT FROM millrace.schedules WHERE paused_at IS NULL AND next_at <= millrace.clock())
  OR EXISTS (SELECT FROM millrace.jobs WHERE state IN ('delayed', 'retrying') AND run_at <= millrace.clock())
  OR EXISTS (SELECT FROM millrace.jobs WHERE lifetime_deadline < millrace.clock()
    AND (state IN ('pending', 'delayed', 'scheduled', 'retrying') OR is_held))
  OR EXISTS (SELECT FROM millrace.jobs j WHERE j.state = 'scheduled'
    AND EXISTS (SELECT FROM millrace.workers w WHERE w.stopped_at IS NULL AND ${SERVES_JOB})
    AND NOT EXISTS (SELECT FROM millrace.queues q WHERE q.name = j.queue AND q.paused_at IS NOT NULL)
    AND NOT EXISTS (SELECT FROM millrace.job_types t WHERE t.name = j.job_type AND t.paused_at IS NOT NULL)
    AND NOT EXISTS (SELECT FROM millrace.orgs o WHERE o.id = j.org_id AND o.max_running = 0)
    AND NOT EXISTS (SELECT FROM millrace.limited m JOIN millrace.limits l ON l.id = m.limit_id
      WHERE m.org_id = j.org_id AND m.seq = j.seq AND l.rate <= (SELECT count(*) FROM millrace.limit_grants g WHERE g.limit_id = l.id
        AND (g.started_at IS NULL OR millrace.slot_free_at(g.started_at, l.per_ms) > millrace.clock())))) AS due`,
);

/** Whether the engine still has work to do now. It reads whole tables, so use it only in tests. */
export async function hasDueWork(db: Queryable): Promise<boolean> {
  const [row] = await run<{ due: boolean }>(db, HAS_DUE);
  return row?.due === true;
}

// Rounded up, because a clock with millisecond precision must not stop before a time between two milliseconds.
const NEXT_TIMES = statement(
  'next_times',
  `SELECT date_trunc('milliseconds', j.at + interval '999 microseconds') AS job_at,
    date_trunc('milliseconds', s.at + interval '999 microseconds') AS schedule_at
   FROM (SELECT min(at) AS at FROM (SELECT run_at AS at FROM millrace.jobs WHERE state IN ('delayed', 'retrying')
     UNION ALL SELECT millrace.slot_free_at(g.started_at, l.per_ms) FROM millrace.limits l JOIN millrace.limit_grants g ON g.limit_id = l.id
       WHERE EXISTS (SELECT FROM millrace.limited t WHERE t.limit_id = l.id)) times) j,
     (SELECT min(next_at) AS at FROM millrace.schedules WHERE paused_at IS NULL) s`,
);

export type NextTimes = { jobAt: Date | null; scheduleAt: Date | null };

/** Returns when the next waiting job and the next schedule are due. */
export async function readNextTimes(db: Queryable): Promise<NextTimes> {
  const [row] = await run<{ job_at: Date | null; schedule_at: Date | null }>(db, NEXT_TIMES);
  return { jobAt: row?.job_at ?? null, scheduleAt: row?.schedule_at ?? null };
}
