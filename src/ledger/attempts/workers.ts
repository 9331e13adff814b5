import { dictionary } from '../../core/dictionary.ts';
import { textArray } from '../driver/binary-array.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';
import type { OrgsOfTypes } from './claim-and-start.ts';

/** Whether worker `w` is alive as far as the ledger can tell. */
export const IS_LIVE = `w.stopped_at IS NULL AND w.beat_at > millrace.clock() - interval '30 seconds'`;

/** Whether worker `w` serves the type of job `j` for the org of the job. */
export const SERVES_JOB = `j.job_type = ANY (w.types)
  AND (w.orgs_of_types->j.job_type IS NULL OR w.orgs_of_types->j.job_type ? j.org_id::text)`;

const REGISTER = statement(
  'register_worker',
  `INSERT INTO millrace.workers (name, host, pid, types, queues, slots, orgs_of_types, reserved_slots, started_at, beat_at)
   VALUES ($1, $2, $3::int4, $4::text[], $5::text[], $6::int4, $7::jsonb, $8::int4, millrace.clock(), millrace.clock()) RETURNING id`,
);

const STOP = statement(
  'stop_worker',
  `UPDATE millrace.workers SET stopped_at = millrace.clock() WHERE id = $1::int8 AND stopped_at IS NULL RETURNING id`,
);

const LIST = statement(
  'list_workers',
  `SELECT id, name, host, pid, types, queues, slots, orgs_of_types AS "orgsOfTypes", started_at AS "startedAt", beat_at AS "beatAt", stopped_at AS "stoppedAt",
     extract(epoch FROM millrace.clock() - beat_at)::float8 * 1000 AS "silentMs",
     extract(epoch FROM millrace.clock() - stalled_at)::float8 * 1000 AS "stalledMs"
   FROM millrace.workers ORDER BY id`,
);

// A claim lists jobs until all of them have ended, so each is checked against the row of its job.
const LOADS = statement(
  'worker_loads',
  `SELECT c.worker_id AS id, c.job_type AS type, count(*)::int4 AS running
   FROM (SELECT worker_id, org_id, job_type, unnest(seqs) AS seq FROM millrace.claims WHERE $1::uuid IS NULL OR org_id = $1::uuid) c CROSS JOIN LATERAL (
     SELECT FROM millrace.jobs j
     WHERE j.org_id = c.org_id AND j.seq = c.seq AND j.state = 'running' AND j.worker_id = c.worker_id OFFSET 0) j
   GROUP BY c.worker_id, c.job_type`,
);

export type NewWorker = {
  name: string;
  host: string;
  pid: number;
  types: readonly string[];
  queues: readonly string[];
  slots: number;
  /** The orgs of each type that the worker serves for some orgs only. */
  orgsOfTypes?: OrgsOfTypes;
  /** How many of the slots only orgs take of which the worker runs no job. */
  reservedSlots?: number;
};

export async function registerWorker(db: Queryable, worker: NewWorker): Promise<number> {
  const rows = await run<{ id: number }>(db, REGISTER, [
    worker.name,
    worker.host,
    worker.pid,
    textArray(worker.types),
    textArray(worker.queues),
    worker.slots,
    orgsText(worker.orgsOfTypes),
    worker.reservedSlots ?? 0,
  ]);
  return Number(rows[0]?.id);
}

const orgsText = (orgs: OrgsOfTypes = new Map()): string | null => (orgs.size === 0 ? null : JSON.stringify(dictionary(orgs)));

/** Ends a worker and its leases: its heartbeat now returns that it is not alive. Its claims stay until they are empty. */
export async function stopWorker(db: Queryable, id: number): Promise<boolean> {
  const rows = await run(db, STOP, [id]);
  return rows.length === 1;
}

export type WorkerInfo = {
  id: number;
  name: string;
  host: string;
  pid: number;
  types: string[];
  queues: string[];
  slots: number;
  /** The orgs of each type that the worker serves for some orgs only. Null: it serves all types for every org. */
  orgsOfTypes: Record<string, string[]> | null;
  startedAt: Date;
  beatAt: Date;
  stoppedAt: Date | null;
  /** Time since its last heartbeat, by the database's clock. */
  silentMs: number;
  /** How long the event loop of its process has been blocked; null while it runs. */
  stalledMs: number | null;
};

export async function listWorkers(db: Queryable): Promise<WorkerInfo[]> {
  return run<WorkerInfo>(db, LIST);
}

/** How many jobs of each type each worker runs, by its id; of one org or of all. Workers without a job are left out. */
export async function workerLoads(db: Queryable, orgId: string | null = null): Promise<Map<number, Map<string, number>>> {
  const rows = await run<{ id: number; type: string; running: number }>(db, LOADS, [orgId]);
  const loads = new Map<number, Map<string, number>>();
  for (const { id, type, running } of rows) loads.set(id, (loads.get(id) ?? new Map()).set(type, running));
  return loads;
}
