import { type Queryable, run, statement } from '../driver/statement.ts';

// Jobs that wait in a queue when it turns fair are ordered by submission. The fair clock starts at the newest of them, so
// that whoever comes later is stamped after all of them and none is overtaken.
const CONFIGURE = statement(
  'configure_queue',
  `INSERT INTO millrace.queues AS q (name, claim_order, paused_at, virtual_time)
   VALUES ($1, coalesce($2, 'fifo'), CASE WHEN $3::boolean THEN millrace.clock() END,
           CASE WHEN $2 = 'fair' THEN (SELECT last_value FROM millrace.job_seq) ELSE 0 END)
   ON CONFLICT (name) DO UPDATE SET claim_order = coalesce($2, q.claim_order),
     paused_at = CASE WHEN $3::boolean IS NULL THEN q.paused_at WHEN $3::boolean THEN coalesce(q.paused_at, millrace.clock()) END,
     virtual_time = CASE WHEN $2 = 'fair' AND q.claim_order <> 'fair' THEN greatest(q.virtual_time, excluded.virtual_time)
                    ELSE q.virtual_time END`,
);

/** A worker looks into every queue at every claim (measured: 3 000 names made 3 ms to the start of a job 115). */
export const MAX_QUEUES = 1_000;

// The first of the names that there is room for. One that another process makes at the same moment counts as made here.
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

const READ = statement(
  'read_queues',
  'SELECT name, claim_order, paused_at, virtual_time FROM millrace.queues ORDER BY name',
);

const RAISE_VIRTUAL_TIME = statement(
  'raise_virtual_time',
  'UPDATE millrace.queues SET virtual_time = $2::int8 WHERE name = $1 AND virtual_time < $2::int8',
);

export type ClaimOrder = 'fifo' | 'fair';

export type QueueChange = { name: string; order?: ClaimOrder; paused?: boolean };

/** Creates the queue if it is new, and keeps the options that the change does not name. No job of a paused queue is claimed. */
export async function configureQueue(db: Queryable, { name, order, paused }: QueueChange): Promise<void> {
  await run(db, CONFIGURE, [name, order ?? null, paused ?? null]);
}

/** Makes the queues that are new, as far as there is room for them. Answers which of the names are queues then. */
export async function introduceQueues(
  db: Queryable,
  names: readonly string[],
  most: number = MAX_QUEUES,
): Promise<Set<string>> {
  const rows = await run<{ name: string }>(db, INTRODUCE, [names, most]);
  return new Set(rows.map(({ name }) => name));
}

/** `virtualTime` is the highest stamp a fair queue has given to a worker. */
export type Queue = { name: string; order: ClaimOrder; pausedAt: Date | null; virtualTime: number };

type Row = { name: string; claim_order: ClaimOrder; paused_at: Date | null; virtual_time: number };

export async function readQueues(db: Queryable): Promise<Queue[]> {
  const rows = await run<Row>(db, READ);
  return rows.map((row) => ({
    name: row.name,
    order: row.claim_order,
    pausedAt: row.paused_at,
    virtualTime: Number(row.virtual_time),
  }));
}

/** Notes how far a fair queue was claimed; never lowers it. */
export async function raiseVirtualTime(db: Queryable, queue: string, stamp: number): Promise<void> {
  await run(db, RAISE_VIRTUAL_TIME, [queue, stamp]);
}
