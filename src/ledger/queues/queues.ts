import type { JobLimit } from '../../core/limit.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';

const CONFIGURE = statement(
  'configure_queue',
  `INSERT INTO millrace.queues AS q (name, claim_order, paused_at, job_limit)
   VALUES ($1, coalesce($2, 'fair'), CASE WHEN $3::boolean THEN millrace.clock() END, $5::jsonb)
   ON CONFLICT (name) DO UPDATE SET claim_order = coalesce($2, q.claim_order),
     paused_at = CASE WHEN $3::boolean IS NULL THEN q.paused_at WHEN $3::boolean THEN coalesce(q.paused_at, millrace.clock()) END,
     job_limit = CASE WHEN $4::boolean THEN $5::jsonb ELSE q.job_limit END`,
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

const READ = statement(
  'read_queues',
  `SELECT name, claim_order AS "order", paused_at AS "pausedAt", job_limit AS "limit" FROM millrace.queues ORDER BY name`,
);

export type ClaimOrder = 'fifo' | 'fair';

/** `limit`: null removes the limit of the queue. */
export type QueueChange = { name: string; order?: ClaimOrder; paused?: boolean; limit?: JobLimit | null };

/** Creates the queue if it is new, and keeps the options that the change does not name. No job of a paused queue is claimed. */
export async function configureQueue(db: Queryable, { name, order, paused, limit }: QueueChange): Promise<void> {
  const text = limit == null ? null : JSON.stringify(limit);
  await run(db, CONFIGURE, [name, order ?? null, paused ?? null, limit !== undefined, text]);
}

/** Creates new queues up to the limit. Returns which of the names are queues now. */
export async function introduceQueues(db: Queryable, names: readonly string[], most: number = MAX_QUEUES): Promise<Set<string>> {
  const rows = await run<{ name: string }>(db, INTRODUCE, [names, most]);
  return new Set(rows.map(({ name }) => name));
}

export type Queue = { name: string; order: ClaimOrder; pausedAt: Date | null; limit: JobLimit | null };

export async function readQueues(db: Queryable): Promise<Queue[]> {
  return run<Queue>(db, READ);
}
