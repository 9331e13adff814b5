import type { JobLimit } from '../../core/limit.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';

/** The columns of the settings that null removes, with their types. */
const SETTINGS = { concurrency: 'int4', rate: 'float8', depth_cap: 'int4', slo_seconds: 'float8', reserved_share: 'float8' } as const;

type SettingColumn = keyof typeof SETTINGS;

const COLUMNS = Object.entries(SETTINGS);
const given = ([name, type]: readonly [string, string]): string => `($6::jsonb->>'${name}')::${type}`;

const CONFIGURE = statement(
  'configure_queue',
  `WITH room AS (INSERT INTO millrace.queue_rooms (queue) VALUES ($1) ON CONFLICT DO NOTHING)
   INSERT INTO millrace.queues AS q (name, claim_order, paused_at, draining_at, job_limit, ${COLUMNS.map(([name]) => name).join(', ')})
   VALUES ($1, coalesce($2, 'fair'), CASE WHEN $3::boolean THEN millrace.clock() END, CASE WHEN $7::boolean THEN millrace.clock() END,
     $5::jsonb, ${COLUMNS.map(given).join(', ')})
   ON CONFLICT (name) DO UPDATE SET claim_order = coalesce($2, q.claim_order),
     paused_at = CASE WHEN $3::boolean IS NULL THEN q.paused_at WHEN $3::boolean THEN coalesce(q.paused_at, millrace.clock()) END,
     draining_at = CASE WHEN $7::boolean IS NULL THEN q.draining_at WHEN $7::boolean THEN coalesce(q.draining_at, millrace.clock()) END,
     job_limit = CASE WHEN $4::boolean THEN $5::jsonb ELSE q.job_limit END,
     ${COLUMNS.map((column) => `${column[0]} = CASE WHEN $6::jsonb ? '${column[0]}' THEN ${given(column)} ELSE q.${column[0]} END`).join(', ')}`,
);

/** A worker reads every queue at every claim (measured: with 3 000 queues a job started after 115 ms instead of 3). */
export const MAX_QUEUES = 1_000;

// Creates the first of the names, up to the limit. A queue that another process creates at the same moment counts as created here.
const INTRODUCE = statement(
  'introduce_queues',
  `WITH fresh AS (
     SELECT w.name FROM unnest($1::text[]) WITH ORDINALITY AS w(name, ord)
     WHERE NOT EXISTS (SELECT FROM millrace.queues q WHERE q.name = w.name)
     GROUP BY w.name ORDER BY min(w.ord) LIMIT greatest(0, $2::int4 - (SELECT count(*) FROM millrace.queues))
   ), added AS (
     INSERT INTO millrace.queues (name) SELECT name FROM fresh ORDER BY name
     ON CONFLICT (name) DO UPDATE SET name = excluded.name RETURNING name
   )
   SELECT name FROM added UNION SELECT name FROM millrace.queues WHERE name = ANY ($1::text[])`,
);

const READ_TEXT = `SELECT name, claim_order AS "order", paused_at AS "pausedAt", draining_at AS "drainingAt", job_limit AS "limit",
     concurrency, rate, depth_cap AS "depthCap", slo_seconds AS "sloSeconds", reserved_share AS "reservedShare" FROM millrace.queues`;

const READ = statement('read_queues', `${READ_TEXT} ORDER BY name`);

// Changes of shares wait for each other, so that two of them cannot exceed the whole together.
const LOCK = statement('lock_queues', `${READ_TEXT} ORDER BY name FOR UPDATE`);

type ClaimOrder = 'fifo' | 'fair';

/** The settings of a queue that have no value by default. Null: not set. */
type QueueSettings = {
  /** Its jobs that run at the same time, over all workers. */
  concurrency: number | null;
  /** Its jobs that start a second, over all workers. */
  rate: number | null;
  /** Its jobs that may wait for a worker. */
  depthCap: number | null;
  /** How long its jobs should wait at most. */
  sloSeconds: number | null;
  /** The part of the slots of each worker that jobs of other queues do not take, from 0 to 1. */
  reservedShare: number | null;
};

const COLUMN_OF: Record<keyof QueueSettings, SettingColumn> = {
  concurrency: 'concurrency',
  rate: 'rate',
  depthCap: 'depth_cap',
  sloSeconds: 'slo_seconds',
  reservedShare: 'reserved_share',
};

/** `limit` and the settings: null removes them. */
export type QueueChange = Partial<QueueSettings> & {
  name: string;
  order?: ClaimOrder;
  paused?: boolean;
  draining?: boolean;
  limit?: JobLimit | null;
};

/** Creates the queue if it is new, and keeps the options that the change does not name. No job of a paused queue is claimed. */
export async function configureQueue(db: Queryable, change: QueueChange): Promise<void> {
  const { name, order, paused, draining, limit } = change;
  const text = limit == null ? null : JSON.stringify(limit);
  const settings = (Object.keys(COLUMN_OF) as (keyof QueueSettings)[])
    .filter((key) => change[key] !== undefined)
    .map((key) => [COLUMN_OF[key], change[key]]);
  const values = JSON.stringify(Object.fromEntries(settings));
  await run(db, CONFIGURE, [name, order ?? null, paused ?? null, limit !== undefined, text, values, draining ?? null]);
}

/** Creates new queues up to the limit. Returns which of the names are queues now. */
export async function introduceQueues(db: Queryable, names: readonly string[], most: number = MAX_QUEUES): Promise<Set<string>> {
  const rows = await run<{ name: string }>(db, INTRODUCE, [names, most]);
  return new Set(rows.map(({ name }) => name));
}

export type Queue = QueueSettings & {
  name: string;
  order: ClaimOrder;
  pausedAt: Date | null;
  /** Since when it accepts no new job. */
  drainingAt: Date | null;
  limit: JobLimit | null;
};

export async function readQueues(db: Queryable): Promise<Queue[]> {
  return run<Queue>(db, READ);
}

/** Must run inside a transaction. Until that ends, nobody else changes a queue. */
export async function lockQueues(db: Queryable): Promise<Queue[]> {
  return run<Queue>(db, LOCK);
}
