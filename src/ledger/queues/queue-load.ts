import { LEFT } from '../attempts/claim-text.ts';
import { type Queryable, run, statement } from '../driver/statement.ts';

/** Of this many jobs in a queue, type and priority, each is checked against its row. Of more, only the tokens are counted. */
const CHECKED = 1_000;
/** How many jobs that wait for a limit are counted in a queue. */
const MOST_LIMITED = 100_000;
/** A token table of more pages is sampled: 16 MB, some 150 000 tokens. */
const MAX_PAGES = 2_000;
const PAGE_BYTES = 8_192;

const PART = `least(1, ${MAX_PAGES * PAGE_BYTES}::float8 / greatest(1, pg_relation_size('millrace.ready')))`;

const LANE = 'r.queue = l.queue AND r.job_type = l.job_type AND r.priority = l.priority';
// The index by org fits only this expression (0014_turns_of_orgs.sql).
const LANE_OF_ORG = `(r.queue || E'\\n' || r.job_type) = (l.queue || E'\\n' || l.job_type) AND r.priority = l.priority AND r.org_id = $1::uuid`;
// As bounds, so that the index is entered at the queue.
const IN_QUEUES = `r.queue >= coalesce($2::text, '') AND r.queue <= coalesce($2::text, chr(1114111))`;

const firstTokens = (where: string): string =>
  `(SELECT r.org_id, r.seqs, r.taken FROM millrace.ready r WHERE ${where} ORDER BY r.order_key LIMIT ${CHECKED})`;

// The lanes, which are queues, types and priorities with waiting jobs, are found with one look into the index for each. Tokens and claims
// may be outdated, so the first jobs of a lane are checked against their rows. OFFSET 0 keeps the planner from joining whole tables. The
// oldest of these counts as the oldest of its lane, because jobs are claimed in the order of submission. Longer lanes are counted by their
// tokens, in a sample if there are very many: on a busy machine, counting a million tokens of one job each took 1.3 to 1.6 s, and the sample
// 0.4 to 0.8 s.
const LOAD = statement(
  'queue_load',
  `WITH RECURSIVE lanes(queue, job_type, priority) AS (
     (SELECT r.queue, r.job_type, r.priority FROM millrace.ready r WHERE ${IN_QUEUES} ORDER BY r.queue, r.job_type, r.priority LIMIT 1)
     UNION ALL
     SELECT n.queue, n.job_type, n.priority FROM lanes l CROSS JOIN LATERAL (
       SELECT r.queue, r.job_type, r.priority FROM millrace.ready r
       WHERE (r.queue, r.job_type, r.priority) > (l.queue, l.job_type, l.priority) AND ${IN_QUEUES}
       ORDER BY r.queue, r.job_type, r.priority LIMIT 1) n
   ), checked AS MATERIALIZED (
     SELECT l.queue, l.job_type, l.priority, c.tokens, c.jobs, c.since FROM lanes l CROSS JOIN LATERAL (
       SELECT count(*) AS tokens, count(j.scheduled_at) AS jobs, min(j.scheduled_at) AS since
       FROM (SELECT f.org_id, u.seq FROM (
           SELECT * FROM ${firstTokens(`$1::uuid IS NULL AND ${LANE}`)} a
           UNION ALL SELECT * FROM ${firstTokens(`$1::uuid IS NOT NULL AND ${LANE_OF_ORG}`)} b) f
         CROSS JOIN LATERAL unnest(f.seqs[f.taken + 1 :]) AS u(seq) LIMIT ${CHECKED}) s
       LEFT JOIN LATERAL (
         SELECT j.scheduled_at FROM millrace.jobs j
         WHERE j.org_id = s.org_id AND j.seq = s.seq AND j.state = 'scheduled' AND j.worker_id IS NULL OFFSET 0) j ON true) c
   ), sampled AS MATERIALIZED (
     SELECT r.queue, r.job_type, r.priority, sum(${LEFT}) / ${PART} AS jobs FROM millrace.ready r TABLESAMPLE SYSTEM (100 * ${PART})
     WHERE ($1::uuid IS NULL OR r.org_id = $1::uuid) AND ${IN_QUEUES} AND EXISTS (SELECT FROM checked WHERE tokens >= ${CHECKED})
     GROUP BY r.queue, r.job_type, r.priority
   ), waiting AS (
     SELECT l.queue, sum(CASE WHEN l.tokens < ${CHECKED} THEN l.jobs ELSE greatest(l.jobs, s.jobs) END) AS jobs, min(l.since) AS since
     FROM checked l LEFT JOIN sampled s ON s.queue = l.queue AND s.job_type = l.job_type AND s.priority = l.priority GROUP BY l.queue
   ), held_back AS (
     SELECT x.queue, count(*) AS jobs, min(j.scheduled_at) AS since FROM (
       SELECT * FROM millrace.limited r WHERE ($1::uuid IS NULL OR r.org_id = $1::uuid) AND ${IN_QUEUES} LIMIT ${MOST_LIMITED}) x
     CROSS JOIN LATERAL (SELECT j.scheduled_at FROM millrace.jobs j WHERE j.org_id = x.org_id AND j.seq = x.seq OFFSET 0) j GROUP BY x.queue
   ), running AS (
     SELECT j.queue, count(*)::int4 AS jobs
     FROM (SELECT org_id, unnest(seqs) AS seq FROM millrace.claims UNION SELECT org_id, seq FROM millrace.waiting) t
     CROSS JOIN LATERAL (
       SELECT j.queue FROM millrace.jobs j WHERE j.org_id = t.org_id AND j.seq = t.seq AND j.state = 'running' OFFSET 0) j
     WHERE $1::uuid IS NULL OR t.org_id = $1::uuid GROUP BY j.queue
   )
   SELECT q.name, q.claim_order AS "order", q.paused_at AS "pausedAt",
     round(coalesce(w.jobs, 0)::float8 + coalesce(h.jobs, 0)::float8)::float8 AS waiting,
     coalesce(r.jobs, 0) AS running, extract(epoch FROM millrace.clock() - least(w.since, h.since))::float8 * 1000 AS "oldestWaitingMs"
   FROM millrace.queues q LEFT JOIN waiting w ON w.queue = q.name LEFT JOIN held_back h ON h.queue = q.name
   LEFT JOIN running r ON r.queue = q.name WHERE $2::text IS NULL OR q.name = $2::text ORDER BY q.name`,
);

export type QueueLoad = {
  name: string;
  order: 'fifo' | 'fair';
  pausedAt: Date | null;
  /** Jobs that could start now, or when a limit of theirs lets them. An estimate if there are more than about 150 000 tokens. */
  waiting: number;
  running: number;
  /** How long the job that has waited longest could have started; null if none waits. */
  oldestWaitingMs: number | null;
};

/** Counts the jobs of each queue, of one org or of all; with `queue`, of that queue only. */
export async function queueLoad(db: Queryable, orgId: string | null, queue: string | null = null): Promise<QueueLoad[]> {
  return run<QueueLoad>(db, LOAD, [orgId, queue]);
}
