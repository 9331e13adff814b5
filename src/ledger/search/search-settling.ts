import { setTimeout as delay } from 'node:timers/promises';
import { outsideOrg } from '../driver/org-reads.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';

// A transaction locks the table of jobs before it draws its first job number, and until it ends. pg_locks shows every such transaction
// to every role, prepared ones too. pg_stat_activity hides sessions of other roles, so it would miss jobs that they commit late.
const WRITERS = `pg_locks l
   WHERE l.locktype = 'relation' AND l.relation = 'millrace.jobs'::regclass AND l.granted AND l.pid IS DISTINCT FROM pg_backend_pid()
     AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
     AND l.mode IN ('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')`;

// A statement of our pools draws its numbers within its timeout of 5 s. If this role cannot see when a transaction began, no time is
// safe. Then only the number that the rollup writer noted counts.
const HORIZON = statement(
  'search_horizon',
  `SELECT CASE WHEN bool_or(w.began_at IS NULL) THEN NULL
       ELSE millrace.clock() - interval '5 seconds' - (now() - least(now(), min(w.began_at))) END AS before,
     (SELECT s.seq FROM millrace.settled_jobs s) AS seq
   FROM (SELECT (SELECT a.xact_start FROM pg_stat_activity a WHERE a.pid = l.pid) AS began_at FROM ${WRITERS}) w`,
);

export type Settled = {
  /** No job with a lower number can follow one that was created before this time. Null: no time is safe. */
  readonly before: Date | null;
  /** No new job can get a number up to this one. */
  readonly seq: number;
};

/** It reads no rows of orgs, and the role of searches cannot see when transactions began. */
export async function settledJobs(db: Queryable): Promise<Settled> {
  return (await run<Settled>(outsideOrg(db), HORIZON))[0] ?? { before: null, seq: 0 };
}

const LAST_SEQ = statement('last_job_seq', 'SELECT last_value AS seq FROM millrace.job_seq');

// The number is read before the list of writers. So the list has every running transaction that drew a lower number.
const NOTE = statement(
  'note_settled_jobs',
  `WITH w AS MATERIALIZED (SELECT ARRAY(SELECT DISTINCT l.virtualtransaction FROM ${WRITERS}) AS writers)
   UPDATE millrace.settled_jobs s SET seq = greatest(s.seq, s.next_seq), next_seq = $1::int8, writers = w.writers FROM w
   WHERE NOT s.writers && w.writers AND (s.seq, s.next_seq) <> ($1::int8, $1::int8)`,
);

/** Notes up to which number jobs are settled. A later call advances it once the transactions of the earlier call have ended. */
export async function noteSettled(db: Queryable): Promise<void> {
  const [last] = await run<{ seq: number }>(db, LAST_SEQ);
  if (last !== undefined) await run(db, NOTE, [last.seq]);
}

const PAUSES_MS = [0, 2, 8, 30] as const;

const RUNNING = statement('search_running', `SELECT ARRAY(SELECT DISTINCT l.virtualtransaction FROM ${WRITERS}) AS writers`);

/** Returns whether every transaction that ran at the time of the call has ended. It waits up to 40 ms, since most are short. */
export async function hasEnded(db: Queryable): Promise<boolean> {
  let left: string[] | null = null;
  for (const pauseMs of PAUSES_MS) {
    if (pauseMs > 0) await delay(pauseMs);
    const [row] = await run<{ writers: string[] }>(db, RUNNING);
    const running: string[] = row?.writers ?? [];
    left = left === null ? running : left.filter((writer) => running.includes(writer));
    if (left.length === 0) return true;
  }
  return false;
}
