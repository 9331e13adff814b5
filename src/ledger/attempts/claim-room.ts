import { int4Array, textArray, uuidArray } from '../driver/binary-array.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';
import type { Caps } from './claim-and-start.ts';
import { LEASED } from './owned-jobs.ts';

// Claims under a cap run one at a time. They first lock the rows that contain the caps, types before orgs, each in order.
const LOCK = statement(
  'lock_claim_room',
  `WITH types AS (
     SELECT name, concurrency FROM millrace.job_types WHERE concurrency IS NOT NULL AND name = ANY ($1::text[])
     ORDER BY name FOR UPDATE
   ), orgs AS (
     SELECT id, max_running FROM millrace.orgs WHERE max_running IS NOT NULL ORDER BY id FOR UPDATE
   )
   SELECT name AS job_type, NULL::uuid AS org_id, concurrency AS cap FROM types
   UNION ALL SELECT NULL, id, max_running FROM orgs`,
);

// A claim does not wait for another one that takes jobs of the same queue: it leaves the queue out. Operators change the rows of `queues`
// and not these, so a change does not hold up a claim either. A queue with a rate may start as many jobs at once as it starts in a tenth
// of a second, at least one; the intervals are equal otherwise.
const LOCK_QUEUES = statement(
  'lock_queue_room',
  `SELECT r.queue, q.concurrency AS cap, q.rate,
     floor(greatest(1, ceil(q.rate / 10)) - q.rate * greatest(0, date_part('epoch', r.next_at - millrace.clock())))::int4 AS pace,
     greatest(0, date_part('epoch', r.next_at - millrace.clock()) * 1000 - (greatest(1, ceil(q.rate / 10)) - 1) * 1000 / q.rate)::float8 AS wait_ms
   FROM millrace.queue_rooms r JOIN millrace.queues q ON q.name = r.queue
   WHERE r.queue = ANY ($1::text[]) ORDER BY r.queue FOR UPDATE OF r SKIP LOCKED`,
);

// A second statement, so that its snapshot is taken after the locks and includes the claim before this one. It counts live leases,
// because a separate counter could drift. A job may be in two claims of one worker, hence DISTINCT.
const COUNT = statement(
  'count_claim_room',
  `SELECT c.job_type, NULL::uuid AS org_id, count(DISTINCT j.seq)::int4 AS live
   FROM ${LEASED} WHERE c.job_type = ANY ($1::text[]) GROUP BY c.job_type
   UNION ALL
   SELECT NULL, c.org_id, count(DISTINCT j.seq)::int4
   FROM ${LEASED} WHERE c.org_id = ANY ($2::uuid[]) GROUP BY c.org_id`,
);

// A claim has no queue, so the jobs of all claims are read. There are as many as workers have slots.
const COUNT_QUEUES = statement(
  'count_queue_room',
  `SELECT j.queue, count(DISTINCT (j.org_id, j.seq))::int4 AS live FROM ${LEASED} WHERE j.queue = ANY ($1::text[]) GROUP BY j.queue`,
);

const PACE = statement(
  'pace_queues',
  `UPDATE millrace.queue_rooms r SET next_at = greatest(r.next_at, millrace.clock()) + s.jobs / q.rate * interval '1 second'
   FROM unnest($1::text[], $2::int4[]) AS s(queue, jobs) JOIN millrace.queues q ON q.name = s.queue
   WHERE r.queue = s.queue AND q.rate IS NOT NULL`,
);

type Cap = { job_type: string | null; org_id: string | null; cap: number };
type Live = { job_type: string | null; org_id: string | null; live: number };

/** Must run inside a transaction. The result stays true until the transaction ends. */
export async function lockRoom(client: Queryable, types: readonly string[]): Promise<Caps> {
  const caps = await run<Cap>(client, LOCK, [textArray(types)]);
  const typeRoom = new Map<string, number>();
  const orgRoom = new Map<string, number>();
  for (const { job_type, org_id, cap } of caps) {
    if (job_type !== null) typeRoom.set(job_type, cap);
    if (org_id !== null) orgRoom.set(org_id, cap);
  }
  if (caps.length > 0) {
    const counts = await run<Live>(client, COUNT, [textArray([...typeRoom.keys()]), uuidArray([...orgRoom.keys()])]);
    for (const { job_type, org_id, live } of counts) {
      if (job_type !== null) typeRoom.set(job_type, (typeRoom.get(job_type) ?? 0) - live);
      if (org_id !== null) orgRoom.set(org_id, (orgRoom.get(org_id) ?? 0) - live);
    }
  }
  return { types: typeRoom, orgs: orgRoom };
}

/** What the caps and rates of queues leave. */
export type QueueRoom = {
  /** How many jobs of each queue may start now. */
  readonly rooms: ReadonlyMap<string, number>;
  /** The queues of these that have a rate. */
  readonly paced: ReadonlySet<string>;
  /** A queue has as many running jobs as it may have, or another claim takes jobs of it. */
  readonly isFull: boolean;
  /** When the next job of a queue with a rate may start; null if no rate holds jobs back. */
  readonly waitMs: number | null;
};

type QueueRow = { queue: string; cap: number | null; rate: number | null; pace: number | null; wait_ms: number | null };

/** Must run inside a transaction. The result stays true until the transaction ends. */
export async function lockQueueRoom(client: Queryable, queues: readonly string[]): Promise<QueueRoom> {
  const rows = await run<QueueRow>(client, LOCK_QUEUES, [textArray(queues)]);
  const capped = rows.filter(({ cap }) => cap !== null).map(({ queue }) => queue);
  const counts = capped.length === 0 ? [] : await run<{ queue: string; live: number }>(client, COUNT_QUEUES, [textArray(capped)]);
  const live = new Map(counts.map((count) => [count.queue, count.live]));
  const rooms = new Map(queues.map((queue) => [queue, 0]));
  let isFull = rows.length < queues.length;
  let waitMs: number | null = null;
  for (const { queue, cap, pace, wait_ms } of rows) {
    const free = cap === null ? Number.POSITIVE_INFINITY : Math.max(0, cap - (live.get(queue) ?? 0));
    if (free === 0) isFull = true;
    if (pace !== null && pace <= 0) waitMs = Math.min(waitMs ?? Number.POSITIVE_INFINITY, wait_ms ?? 0);
    rooms.set(queue, Math.min(free, Math.max(0, pace ?? Number.POSITIVE_INFINITY)));
  }
  return { rooms, paced: new Set(rows.filter(({ rate }) => rate !== null).map(({ queue }) => queue)), isFull, waitMs };
}

/** Counts the jobs that were taken against the rates of their queues. In the transaction that locked them. */
export async function paceQueues(client: Queryable, taken: ReadonlyMap<string, number>): Promise<void> {
  await run(client, PACE, [textArray([...taken.keys()]), int4Array([...taken.values()])]);
}
