import type { Amounts } from '../../core/fair-share.ts';
import { ADMISSION_LOCK, OTHER_ADMISSION_LOCK, waitForLock } from '../driver/advisory-locks.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';

/** More orgs than this are not listed. Those that are left out have the fewest jobs. */
const MAX_ORGS = 1_000;

// Counts by org, the orgs with most jobs first. Each row also has the total of all orgs.
const byOrg = (waiting: string): string =>
  `SELECT org_id, sum(cardinality(seqs) - taken)::int4 AS depth, (sum(sum(cardinality(seqs) - taken)) OVER ())::int4 AS total
   FROM (${waiting}) AS waiting GROUP BY org_id ORDER BY depth DESC LIMIT ${MAX_ORGS}`;

const COUNT = statement(
  'queue_depth',
  byOrg(`(SELECT org_id, seqs, taken FROM millrace.ready WHERE queue = $1 AND job_type = $2 LIMIT $3::int4)
   UNION ALL (SELECT org_id, ARRAY[seq], 0 FROM millrace.limited WHERE queue = $1 AND job_type = $2 LIMIT $3::int4)`),
);

const COUNT_BESIDE = statement(
  'queue_depth_beside',
  byOrg(`(SELECT org_id, seqs, taken FROM millrace.ready WHERE job_type <> ALL ($1::text[]) LIMIT $2::int4)
   UNION ALL (SELECT org_id, ARRAY[seq], 0 FROM millrace.limited WHERE job_type <> ALL ($1::text[]) LIMIT $2::int4)`),
);

const COUNT_WAITING = statement(
  'count_waiting',
  `SELECT coalesce(sum(jobs), 0)::int4 AS jobs FROM (
     (SELECT cardinality(seqs) - taken AS jobs FROM millrace.ready WHERE queue = $1 LIMIT $2::int4)
     UNION ALL (SELECT 1 FROM millrace.limited WHERE queue = $1 LIMIT $2::int4)) w`,
);

const LOCK = statement('lock_admission', `SELECT ${waitForLock(ADMISSION_LOCK)}`);
const LOCK_BESIDE = statement('lock_admission_beside', `SELECT ${waitForLock(OTHER_ADMISSION_LOCK)}`);

export type Waiting = { queue: string; jobType: string; atMost: number };

/** Jobs of all types except these. */
export type WaitingBeside = { types: readonly string[]; atMost: number };

type Row = { org_id: string; depth: number; total: number };

const depthOf = (rows: readonly Row[]): Amounts => ({
  all: rows[0]?.total ?? 0,
  holders: new Map(rows.map(({ org_id, depth }) => [org_id, depth])),
});

/** Returns how many jobs of a type wait for a worker, counting up to `atMost`. */
export async function depthByOrg(db: Queryable, { queue, jobType, atMost }: Waiting): Promise<Amounts> {
  return depthOf(await run<Row>(db, COUNT, [queue, jobType, atMost]));
}

/** Returns how many jobs of a queue wait for a worker, counting up to about `atMost`. */
export async function countWaiting(db: Queryable, { queue, atMost }: Omit<Waiting, 'jobType'>): Promise<number> {
  return (await run<{ jobs: number }>(db, COUNT_WAITING, [queue, atMost]))[0]?.jobs ?? 0;
}

/** Must run inside a transaction. Until that ends, no other caller of this function can add to the queue. */
export async function lockedDepthByOrg(db: Queryable, waiting: Waiting): Promise<Amounts> {
  await run(db, LOCK);
  return depthByOrg(db, waiting);
}

/** Returns how many jobs of all other types wait, in any queue, counting up to `atMost`. */
export async function depthBeside(db: Queryable, { types, atMost }: WaitingBeside): Promise<Amounts> {
  return depthOf(await run<Row>(db, COUNT_BESIDE, [types, atMost]));
}

/** Like `lockedDepthByOrg`, but for jobs of all other types. */
export async function lockedDepthBeside(db: Queryable, waiting: WaitingBeside): Promise<Amounts> {
  await run(db, LOCK_BESIDE);
  return depthBeside(db, waiting);
}
