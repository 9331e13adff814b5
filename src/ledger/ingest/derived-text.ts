/** What a user sees of an error. Completed downloads have none, and a cancelled one says so. */
export const errorText = (job: string): string => `CASE WHEN ${job}.state = 'completed' THEN NULL
      WHEN ${job}.state = 'cancelled' THEN '{"code": "CANCELLED", "message": "The download was cancelled."}'::jsonb
      WHEN ${job}.last_error IS NOT NULL THEN
        jsonb_build_object('code', ${job}.last_error->>'code', 'message', ${job}.last_error->>'message') END`;

/** The bytes that a completed download stored. */
export const bytesText = (job: string): string =>
  `CASE WHEN ${job}.state = 'completed' AND json_typeof(${job}.result->'bytes') = 'number' THEN (${job}.result->>'bytes')::float8::int8 END`;

/**
 * The attempts of a download that ran. An attempt that was postponed has waited for its host and downloaded nothing, but the ledger counts its
 * start. Only the history knows how many of these there were in the current round. Most downloads start once, and need no look at it.
 * A page of 1000 downloads with 20 postponements each takes 0.3 s; with `unnest` instead of `array_position` it took 1.4 s.
 */
export const attemptsText = (job: string): string => `CASE
      WHEN ${job}.attempts_started = 0 OR ${job}.attempts_started = 1 AND ${job}.state IN ('running', 'completed', 'failed') THEN ${job}.attempts_started
      ELSE ${job}.attempts_started - (
        SELECT count(*) FROM millrace.records h
        WHERE h.id = ANY (${job}.record_ids) AND h.at >= ${job}.created_at AND h.org_id = ${job}.org_id AND h.reason = 'postponed'
          AND ${job}.seq = ANY (h.seqs) AND coalesce(h.rounds[array_position(h.seqs, ${job}.seq)], 0) = ${job}.round) END::int4`;

/**
 * Whether an attempt of a download ran. Every end of an attempt leaves an error, except a completion and a postponement. The error may be
 * that of an earlier round, and then the history decides.
 */
const hasRunText = (job: string): string => `CASE
      WHEN ${job}.state = 'running' OR ${job}.state >= 'completed' THEN true
      WHEN ${job}.attempts_started = 0 OR ${job}.last_error IS NULL THEN false
      WHEN ${job}.round = 0 THEN true
      ELSE ${attemptsText(job)} > 0 END`;

/** Whether resource `r` has a copy of the last end of its job. That spares a look into the JSON of the job. */
const IS_COPIED = `(j.id IS NULL OR r.ended_at = j.completed_at AND r.ended_state = j.state)`;

/**
 * Counts the resources of job `i` where `wanted` holds, by the jobs that download them. The row of a job that is gone was copied when it
 * ended. A completed job never changes again, so its copy counts without a look at it, which takes a quarter of the time.
 */
export const countsText = (wanted: string): string => `
   LEFT JOIN LATERAL (
     SELECT count(*)::int4 AS linked, count(*) FILTER (WHERE s.state = 'completed')::int4 AS completed,
       count(*) FILTER (WHERE s.state > 'completed')::int4 AS failed,
       count(*) FILTER (WHERE s.has_run)::int4 AS started,
       max(s.ended_at) AS ended_at, coalesce(sum(s.bytes), 0)::int8 AS bytes,
       (array_agg(s.error ORDER BY s.changed_at DESC) FILTER (WHERE s.error IS NOT NULL))[1] AS error
     FROM (
       SELECT coalesce(j.state, r.ended_state) AS state, j.id IS NULL OR ${hasRunText('j')} AS has_run,
         CASE WHEN j.id IS NULL THEN r.ended_at ELSE j.completed_at END AS ended_at, coalesce(j.updated_at, r.ended_at) AS changed_at,
         CASE WHEN ${IS_COPIED} THEN r.bytes ELSE ${bytesText('j')} END AS bytes,
         CASE WHEN ${IS_COPIED} THEN r.error ELSE ${errorText('j')} END AS error
       FROM millrace.ingest_resources r
         LEFT JOIN millrace.jobs j ON j.id = CASE WHEN r.ended_state = 'completed' THEN NULL ELSE r.task_id END
       WHERE r.job_id = i.id AND (${wanted}) OFFSET 0) s
   ) c ON true`;

/** Queued until the first resource begins, in progress until all have ended. One failed resource makes the job failed. */
export const STATUS = `CASE WHEN i.settled_at IS NOT NULL AND c.linked < i.resource_total
       THEN CASE WHEN i.failed > 0 THEN 'failed' ELSE 'completed' END
     WHEN c.completed + c.failed >= i.resource_total THEN CASE WHEN c.failed > 0 THEN 'failed' ELSE 'completed' END
     WHEN c.started > 0 THEN 'in_progress' ELSE 'queued' END`;

/** A job whose resources were not counted, or are gone, has the sums that were copied when it ended. */
const summed = (column: string): string =>
  `CASE WHEN i.settled_at IS NOT NULL AND c.linked < i.resource_total THEN i.${column} ELSE c.${column} END`;

/** The finalizer `f` runs after all downloads, so its error is the newest. */
export const INGEST_JOB_COLUMNS = `i.id, i.org_id AS "orgId", o.slug AS "orgSlug", i.job_type AS "jobType", i.tenant, i.bucket,
   i.manifest_sha256 AS "manifestSha256", i.producer, i.producer_job_id AS "producerJobId", i.manifest_key AS "manifestKey", i.resource_count AS "resourceCount", i.resource_total AS "resourceTotal", i.log_offset AS "logOffset",
   i.created_at AS "createdAt", greatest(i.updated_at, c.ended_at) AS "updatedAt", i.settled_at AS "settledAt",
   ${STATUS} AS status, ${summed('completed')} AS completed, ${summed('failed')} AS failed, ${summed('bytes')} AS bytes,
   coalesce(CASE WHEN f.state IS DISTINCT FROM 'completed' AND f.last_error IS NOT NULL
     THEN jsonb_build_object('code', f.last_error->>'code', 'message', f.last_error->>'message') END,
     CASE WHEN i.settled_at IS NOT NULL AND c.linked < i.resource_total THEN i.last_error ELSE c.error END) AS "lastError",
   CASE WHEN i.finalizer_id IS NULL THEN NULL WHEN f.state = 'completed' OR f.state IS NULL THEN 'completed'
     WHEN f.state > 'completed' THEN 'failed' ELSE 'in_progress' END AS finalizer`;

export const INGEST_JOB_JOINS = `
   JOIN millrace.orgs o ON o.id = i.org_id
   LEFT JOIN millrace.jobs f ON f.id = i.finalizer_id`;
