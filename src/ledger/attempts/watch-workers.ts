import { tryLock, trySessionLock, WORKER_LOCK_CLASS, workerLock } from '../driver/advisory-locks.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';

/** Identifies the newest beat of worker `w` by the microsecond at which it was written, on the database's clock. */
export const BEAT = `(extract(epoch FROM w.beat_at) * 1000000)::int8`;

/** The numbers of the worker locks that sessions hold, as `held_no`. */
const HELD_LOCKS = `SELECT l.objid::int8 AS held_no FROM pg_catalog.pg_locks l
       WHERE l.locktype = 'advisory' AND l.objsubid = 2 AND l.granted AND l.classid = ${WORKER_LOCK_CLASS}
         AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = current_database())`;

/** Whether worker `w` has a lock number and no session holds that lock. */
export const IS_LOCK_FREE = `(w.lock_no IS NOT NULL AND w.lock_no NOT IN (${HELD_LOCKS}))`;

/** The longest pause between two beats of a worker whose older program does not record it. */
export const DEFAULT_BEAT_MS = 5_000;

// Reads the view of all locks once, for any number of workers.
const WATCH = statement(
  'watch_workers',
  `WITH held AS MATERIALIZED (${HELD_LOCKS})
   SELECT w.id, ${BEAT} AS beat, coalesce(w.beat_ms, ${DEFAULT_BEAT_MS}) AS "beatMs",
     w.lock_no IS NOT NULL AND w.lock_no NOT IN (SELECT held_no FROM held) AS "isLockFree",
     w.beat_at < millrace.clock() - interval '1 day' AS "isLongGone"
   FROM millrace.workers w WHERE w.stopped_at IS NULL`,
);

export type WatchedWorker = {
  id: number;
  /** Changes with every heartbeat. */
  beat: number;
  beatMs: number;
  /** Its session held a lock and is gone. False for a worker without a lock. */
  isLockFree: boolean;
  /** By the database's clock it has been silent for a day. */
  isLongGone: boolean;
};

/** Reads all workers that have not stopped. */
export async function watchWorkers(db: Queryable): Promise<WatchedWorker[]> {
  return run<WatchedWorker>(db, WATCH);
}

// The row is locked first. A beat since then has changed the row, and a beat in flight holds it: both keep the worker alive. A worker
// that reconnects writes its new lock number into the row, so it waits here and then finds that it was stopped.
const DECLARE_DEAD = statement(
  'declare_worker_dead',
  `WITH worker AS MATERIALIZED (
     SELECT w.id, w.lock_no, w.beat_at < millrace.clock() - interval '1 day' AS is_long_gone FROM millrace.workers w
     WHERE w.id = $1::int8 AND w.stopped_at IS NULL AND ${BEAT} = $2::int8 FOR UPDATE SKIP LOCKED
   ), dead AS MATERIALIZED (
     SELECT id FROM worker
     WHERE is_long_gone OR (lock_no IS NOT NULL AND ${tryLock(workerLock('lock_no'))})
   )
   UPDATE millrace.workers w SET stopped_at = millrace.clock() FROM dead WHERE w.id = dead.id RETURNING 1`,
);

/**
 * Stops a worker whose session is gone, or that has been silent for a day. Other workers may then take its jobs, and its heartbeat
 * returns that it is not alive. Returns false if it sent a beat or reconnected since the caller looked.
 */
export async function declareDead(db: Queryable, { id, beat }: Pick<WatchedWorker, 'id' | 'beat'>): Promise<boolean> {
  return (await run(db, DECLARE_DEAD, [id, beat])).length === 1;
}

const HOLD = statement(
  'hold_worker_lock',
  `WITH next AS MATERIALIZED (
     SELECT nextval('millrace.worker_lock_no')::int4 AS lock_no WHERE pg_backend_pid() = $2::int4
   ), taken AS MATERIALIZED (
     SELECT lock_no FROM next WHERE ${trySessionLock(workerLock('lock_no'))}
   )
   UPDATE millrace.workers w SET lock_no = (SELECT lock_no FROM taken), beat_at = millrace.clock()
   WHERE w.id = $1::int8 AND w.stopped_at IS NULL RETURNING w.lock_no IS NOT NULL AS "isHeld"`,
);

/**
 * Takes a lock for the worker that lasts as long as this session. `processId` is the id that the server sent when the client connected.
 * If it is not the session's, a pooler is in between and the lock would not belong to this client. Returns false if no lock is held.
 */
export async function holdWorkerLock(db: Queryable, { workerId, processId }: { workerId: number; processId: number }): Promise<boolean> {
  const [row] = await run<{ isHeld: boolean }>(db, HOLD, [workerId, processId]);
  return row?.isHeld === true;
}
