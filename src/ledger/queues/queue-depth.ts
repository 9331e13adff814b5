import { ADMISSION_LOCK, OTHER_ADMISSION_LOCK, waitForLock } from '../driver/advisory-locks.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';

const DEPTH = 'coalesce(sum(cardinality(seqs) - taken), 0)::int4 AS depth';

const COUNT = statement(
  'queue_depth',
  `SELECT ${DEPTH}
   FROM (SELECT seqs, taken FROM millrace.ready WHERE queue = $1 AND job_type = $2 LIMIT $3::int4) AS waiting`,
);

const COUNT_BESIDE = statement(
  'queue_depth_beside',
  `SELECT ${DEPTH}
   FROM (SELECT seqs, taken FROM millrace.ready WHERE job_type <> ALL ($1::text[]) LIMIT $2::int4) AS waiting`,
);

const LOCK = statement('lock_admission', `SELECT ${waitForLock(ADMISSION_LOCK)}`);
const LOCK_BESIDE = statement('lock_admission_beside', `SELECT ${waitForLock(OTHER_ADMISSION_LOCK)}`);

export type Waiting = { queue: string; jobType: string; atMost: number };

/** Jobs of all types except these. */
export type WaitingBeside = { types: readonly string[]; atMost: number };

/** Returns how many jobs of a type wait for a worker, counting up to `atMost`. */
export async function queueDepth(db: Queryable, { queue, jobType, atMost }: Waiting): Promise<number> {
  const [row] = await run<{ depth: number }>(db, COUNT, [queue, jobType, atMost]);
  return (row as { depth: number }).depth;
}

/** Must run inside a transaction. Until that ends, no other caller of this function can add to the queue. */
export async function lockedQueueDepth(db: Queryable, waiting: Waiting): Promise<number> {
  await run(db, LOCK);
  return queueDepth(db, waiting);
}

/** Returns how many jobs of all other types wait, in any queue, counting up to `atMost`. */
export async function depthBeside(db: Queryable, { types, atMost }: WaitingBeside): Promise<number> {
  const [row] = await run<{ depth: number }>(db, COUNT_BESIDE, [types, atMost]);
  return (row as { depth: number }).depth;
}

/** Like `lockedQueueDepth`, but for jobs of all other types. */
export async function lockedDepthBeside(db: Queryable, waiting: WaitingBeside): Promise<number> {
  await run(db, LOCK_BESIDE);
  return depthBeside(db, waiting);
}
