import { type Queryable, run, statement } from '../driver/statement.ts';

/** How many of the first runs of a range are looked at. In a fair queue the first job is not always the oldest one. */
const LOOKED_AT = 20;

// Goes from range to range by the index of claims, so its cost depends on the number of queues, types and priorities, not on that of
// waiting jobs. What is paused waits on purpose. The settings of a queue are read as JSON, so that a ledger without the column works, too.
const WAITING = statement(
  'find_waiting_ranges',
  `WITH RECURSIVE ranges AS (
     (SELECT queue, job_type, priority FROM millrace.ready ORDER BY queue, job_type, priority LIMIT 1)
     UNION ALL
     SELECT n.queue, n.job_type, n.priority FROM ranges r CROSS JOIN LATERAL (
       SELECT t.queue, t.job_type, t.priority FROM millrace.ready t
       WHERE (t.queue, t.job_type, t.priority) > (r.queue, r.job_type, r.priority) ORDER BY t.queue, t.job_type, t.priority LIMIT 1) n
   ), oldest AS (
     SELECT r.queue, r.job_type, extract(epoch FROM millrace.clock() - min(j.scheduled_at))::float8 AS seconds
     FROM ranges r CROSS JOIN LATERAL (
       SELECT t.org_id, t.seqs[t.taken + 1] AS seq FROM millrace.ready t
       WHERE t.queue = r.queue AND t.job_type = r.job_type AND t.priority = r.priority ORDER BY t.order_key LIMIT ${LOOKED_AT}) t
     CROSS JOIN LATERAL (
       SELECT j.scheduled_at FROM millrace.jobs j
       WHERE j.org_id = t.org_id AND j.seq = t.seq AND j.state = 'scheduled' AND j.worker_id IS NULL OFFSET 0) j
     GROUP BY r.queue, r.job_type
   )
   SELECT o.queue, o.job_type AS "jobType", o.seconds, (to_jsonb(q)->>'slo_seconds')::float8 AS "sloSeconds", EXISTS (
     SELECT FROM millrace.workers w WHERE w.stopped_at IS NULL AND w.beat_at > millrace.clock() - interval '30 seconds'
       AND o.job_type = ANY (w.types) AND (w.queues && ARRAY['*', o.queue::text])) AS "hasWorker"
   FROM oldest o JOIN millrace.queues q ON q.name = o.queue LEFT JOIN millrace.job_types y ON y.name = o.job_type
   WHERE q.paused_at IS NULL AND y.paused_at IS NULL ORDER BY o.queue, o.job_type`,
);

/** The waiting jobs of one queue and type. */
export type WaitingRange = {
  readonly queue: string;
  readonly jobType: string;
  /** How long about the oldest one could have started. */
  readonly seconds: number;
  /** What an operator set for the queue; null: nothing. */
  readonly sloSeconds: number | null;
  /** Whether a live worker serves the type in this queue. */
  readonly hasWorker: boolean;
};

export const findWaitingRanges = (db: Queryable): Promise<WaitingRange[]> => run<WaitingRange>(db, WAITING);

const LAGS = statement(
  'projection_lags',
  `SELECT p.name, extract(epoch FROM millrace.clock() - r.at)::float8 AS seconds
   FROM millrace.projections p CROSS JOIN LATERAL (
     SELECT r.at FROM millrace.records r WHERE r.txid >= p.txid ORDER BY r.txid, r.id LIMIT 1) r
   ORDER BY p.name`,
);

/** How old the oldest record is that a reader of the history has not read. A reader that has read everything is left out. */
export const projectionLags = (db: Queryable): Promise<{ name: string; seconds: number }[]> => run(db, LAGS);

// Downloads and finalizers have no entry among the dead letters: operators retry the job that they belong to. An alert counts what died since
// the one before.
const DEAD_DOWNLOADS = statement(
  'find_dead_downloads',
  `WITH died AS (
     SELECT e.org_id, e.job_id, e.at, 'fetchbox.fetch' AS type, e.body->'error'->>'code' AS code FROM millrace.stream_entries e
     WHERE e.stream = 'jobs.dlq' AND e.at > millrace.clock() - interval '1 hour' AND e.body->>'state' = 'dead_letter'
     UNION ALL
     SELECT i.org_id, i.id, j.completed_at, j.job_type, j.last_error->>'code' FROM millrace.ingest_jobs i JOIN millrace.jobs j ON j.id = i.finalizer_id
     WHERE i.settled_at > millrace.clock() - interval '1 day' AND j.state = 'dead_letter'
   )
   SELECT d.org_id AS "orgId", d.job_id AS "jobId", d.type, coalesce(max(d.code), 'UNKNOWN') AS code, count(*)::int4 AS count FROM died d
   WHERE NOT EXISTS (
     SELECT FROM millrace.alerts a WHERE a.kind = 'dead_letter' AND a.org_id = d.org_id AND a.subject = 'job:' || d.job_id AND a.last_at >= d.at)
   GROUP BY d.org_id, d.job_id, d.type ORDER BY max(d.at) LIMIT $1::int4`,
);

/** Jobs of the ingest API whose downloads, or whose last step, used up their attempts and have no alert yet. */
export type DeadDownloads = {
  readonly orgId: string;
  /** The ingest job. */
  readonly jobId: string;
  readonly type: string;
  readonly code: string;
  readonly count: number;
};

export const findDeadDownloads = (db: Queryable, limit: number): Promise<DeadDownloads[]> =>
  run<DeadDownloads>(db, DEAD_DOWNLOADS, [limit]);

// A webhook that was disabled has one alert, whenever that is noticed.
const DISABLED = statement(
  'find_disabled_webhooks',
  `SELECT w.id, w.org_id AS "orgId", w.disabled_reason AS reason FROM millrace.webhooks w
   WHERE w.disabled_reason IN ('gone', 'failing') AND w.disabled_at > millrace.clock() - interval '1 day' AND w.deleted_at IS NULL
     AND NOT EXISTS (
       SELECT FROM millrace.alerts a WHERE a.kind = 'webhook_disabled' AND a.org_id = w.org_id AND a.subject = 'webhook:' || w.id
         AND a.first_at >= w.disabled_at)
   ORDER BY w.disabled_at LIMIT $1::int4`,
);

export type DisabledWebhook = { readonly id: string; readonly orgId: string; readonly reason: 'gone' | 'failing' };

/** Webhooks that failures have disabled and that have no alert yet. */
export const findDisabledWebhooks = (db: Queryable, limit: number): Promise<DisabledWebhook[]> =>
  run<DisabledWebhook>(db, DISABLED, [limit]);
