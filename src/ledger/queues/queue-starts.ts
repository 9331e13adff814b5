import { type Queryable, run, statement } from '../driver/statement.ts';

/** How many records of the history one round reads, and how many jobs of each it looks at. */
const MAX_RECORDS = 2_000;
const MAX_OF_RECORD = 20;
/** A process that starts after a long pause does not count what lies further back. */
const OLDEST = `interval '1 hour'`;
const KEPT = `interval '1 day'`;

// A record of starts has the waiting times, and the rows of its jobs have the queue. The position only moves on, so a record whose
// transaction commits after a later one was counted is left out: a claim is one short transaction, and the counts are a sample anyway.
const COUNT = statement(
  'count_queue_starts',
  `WITH position AS MATERIALIZED (
     SELECT record_id FROM millrace.queue_starts_position FOR UPDATE SKIP LOCKED
   ), looked AS MATERIALIZED (
     SELECT r.id, r.at, r.org_id, r.to_state, r.seqs, r.took_ms FROM position p CROSS JOIN LATERAL (
       SELECT * FROM millrace.records r WHERE r.id > p.record_id AND r.at > millrace.clock() - ${OLDEST} ORDER BY r.id LIMIT ${MAX_RECORDS}) r
   ), moved AS (
     UPDATE millrace.queue_starts_position SET record_id = (SELECT max(id) FROM looked) WHERE EXISTS (SELECT FROM looked)
   ), starts AS MATERIALIZED (
     SELECT j.queue, l.org_id, date_trunc('minute', l.at) AS minute, u.took_ms > q.slo_seconds * 1000 AS is_late
     FROM looked l CROSS JOIN LATERAL unnest(l.seqs[1 : ${MAX_OF_RECORD}], l.took_ms[1 : ${MAX_OF_RECORD}]) AS u(seq, took_ms)
     CROSS JOIN LATERAL (SELECT j.queue FROM millrace.jobs j WHERE j.org_id = l.org_id AND j.seq = u.seq OFFSET 0) j
     JOIN millrace.queues q ON q.name = j.queue WHERE l.to_state = 'running'
   ), added AS (
     INSERT INTO millrace.queue_starts AS s (queue, org_id, minute, starts, late)
     SELECT queue, org_id, minute, count(*), count(*) FILTER (WHERE is_late) FROM starts GROUP BY 1, 2, 3
     ON CONFLICT (queue, org_id, minute) DO UPDATE SET starts = s.starts + excluded.starts, late = s.late + excluded.late
   )
   SELECT count(*)::int4 AS records FROM looked`,
);

const FORGET = statement('forget_queue_starts', `DELETE FROM millrace.queue_starts WHERE minute < millrace.clock() - ${KEPT}`);

// The last hour in which anything started.
const READ = statement(
  'read_queue_starts',
  `SELECT q.name AS queue, s.starts::float8, s.late::float8 FROM millrace.queues q CROSS JOIN LATERAL (
     SELECT sum(s.starts) AS starts, sum(s.late) AS late FROM millrace.queue_starts s
     WHERE s.queue = q.name AND ($1::uuid IS NULL OR s.org_id = $1::uuid) AND s.minute > (
       SELECT max(n.minute) FROM millrace.queue_starts n WHERE n.queue = q.name AND ($1::uuid IS NULL OR n.org_id = $1::uuid)) - interval '1 hour') s
   WHERE s.starts IS NOT NULL`,
);

/** Counts the starts of new attempts by queue. Returns whether there may be more to count. Another process may be at it. */
export async function countQueueStarts(db: Queryable): Promise<boolean> {
  const [row] = await run<{ records: number }>(db, COUNT);
  return (row?.records ?? 0) >= MAX_RECORDS;
}

export async function forgetQueueStarts(db: Queryable): Promise<void> {
  await run(db, FORGET);
}

/** How many attempts of a queue started in the hour before its last start, and how many of them had waited longer than its target. */
export type QueueStarts = { readonly starts: number; readonly late: number };

/** By queue, of one org or of all. Queues in which nothing started within a day are absent. */
export async function readQueueStarts(db: Queryable, orgId: string | null): Promise<Map<string, QueueStarts>> {
  const rows = await run<QueueStarts & { queue: string }>(db, READ, [orgId]);
  return new Map(rows.map(({ queue, starts, late }) => [queue, { starts, late }]));
}
