import { DOWNLOAD_GATE_LOCK_CLASS, GATE_SWEEP_LOCK, gateLock, holdSessionLock, tryLock } from '../driver/advisory-locks.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';

// The row and the lock appear together, because the statement is one transaction and the lock outlives it.
const OPEN = statement(
  'open_download_gate',
  `WITH gate AS (INSERT INTO millrace.download_gates (opened_at) VALUES (millrace.clock()) RETURNING id)
   SELECT id, ${holdSessionLock(gateLock('id'))} AS held FROM gate`,
);

const PING = statement('ping_download_gate', 'SELECT id FROM millrace.download_gates WHERE id = $1::int4');

// `pg_locks` says which gates live without taking a lock that a session might be about to take.
const DEAD = statement(
  'dead_download_gates',
  `SELECT g.id FROM millrace.download_gates g WHERE NOT EXISTS (
     SELECT 1 FROM pg_locks l WHERE l.locktype = 'advisory' AND l.classid = ${DOWNLOAD_GATE_LOCK_CLASS}::oid AND l.objid = g.id::oid
       AND l.objsubid = 2 AND l.granted AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()))`,
);

// One process sweeps at a time, because two could lock the rows of hosts in different orders.
const REMOVE = statement(
  'remove_download_gates',
  `WITH gone AS MATERIALIZED (
     DELETE FROM millrace.download_gates g WHERE g.id = ANY ($1::int4[]) AND (SELECT ${tryLock(GATE_SWEEP_LOCK)}) RETURNING g.id
   ), freed AS (
     UPDATE millrace.download_hosts h SET
       places = ARRAY(SELECT p FROM unnest(h.places) WITH ORDINALITY AS u(p, n) WHERE p NOT IN (SELECT id FROM gone) ORDER BY n),
       waiting = ARRAY(SELECT p FROM unnest(h.waiting) WITH ORDINALITY AS u(p, n) WHERE p NOT IN (SELECT id FROM gone) ORDER BY n)
     WHERE EXISTS (SELECT 1 FROM gone WHERE gone.id = ANY (h.places) OR gone.id = ANY (h.waiting))
   )
   SELECT id FROM gone`,
);

/** Registers a process. The session that runs this must not be used by anything else, and represents the process until it ends. */
export async function openGate(session: Queryable): Promise<number> {
  const [row] = await run<{ id: number }>(session, OPEN);
  return (row as { id: number }).id;
}

/** Returns whether the gate is still registered. */
export async function pingGate(session: Queryable, gateId: number): Promise<boolean> {
  return (await run(session, PING, [gateId])).length > 0;
}

/** The gates whose session has ended. */
export async function findDeadGates(db: Queryable): Promise<number[]> {
  return (await run<{ id: number }>(db, DEAD)).map(({ id }) => id);
}

/** Frees the places of these gates. */
export async function removeGates(db: Queryable, ids: readonly number[]): Promise<number[]> {
  return (await run<{ id: number }>(db, REMOVE, [ids])).map(({ id }) => id);
}
