-- Purpose: limits by key: how many jobs run at the same time, and how many start within a time (decision 0048). Locks: `jobs` cannot be
-- written while it is read once for an index without entries; `queues` for a moment. Breaking: a
-- process of an earlier version starts limited jobs that it stages, retries or releases without a grant. Submit the first job with a
-- limit when all processes have this version.

-- How many jobs with one key may run or start. The numbers are those of the newest submission that gave others.
CREATE TABLE millrace.limits (
  id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  org_id       uuid NOT NULL,
  key          text NOT NULL,
  concurrency  integer CHECK (concurrency >= 1),
  rate         integer CHECK (rate >= 1),
  per_ms       integer CHECK (per_ms >= 1),
  last_used_at timestamptz NOT NULL DEFAULT now(),  -- by the real clock, as in `policies`
  UNIQUE (org_id, key),
  CONSTRAINT limits_limit_something CHECK ((concurrency IS NOT NULL OR rate IS NOT NULL) AND (rate IS NULL) = (per_ms IS NULL))
);
CREATE INDEX limits_by_last_use ON millrace.limits (last_used_at);   -- the pruner

-- Set at submission and never changed, so updates of a job still touch no index.
ALTER TABLE millrace.jobs ADD COLUMN limit_id bigint;
CREATE INDEX jobs_by_limit ON millrace.jobs (limit_id) WHERE limit_id IS NOT NULL;  -- the pruner: is the limit in use

ALTER TABLE millrace.queues ADD COLUMN job_limit jsonb;              -- for jobs whose submission and type have no limit

-- The tokens of scheduled jobs that wait for a grant of their limit. Claims do not read this table.
CREATE TABLE millrace.limited (
  limit_id  bigint NOT NULL,
  order_key bigint NOT NULL,
  seq       bigint NOT NULL,
  dies_at   timestamptz,
  org_id    uuid NOT NULL,
  priority  smallint NOT NULL,
  queue     text COLLATE "C" NOT NULL,
  job_type  text COLLATE "C" NOT NULL,
  PRIMARY KEY (org_id, seq)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_cost_delay = 0);
-- The first jobs of a limit in each queue and type, so that nothing reads past the jobs of a paused queue.
CREATE INDEX limited_in_order ON millrace.limited (limit_id, queue, job_type, priority, order_key);

-- Jobs that a limit allowed to start. The rows of these jobs say whether they still count.
CREATE TABLE millrace.limit_grants (
  limit_id   bigint NOT NULL,
  id         bigint GENERATED ALWAYS AS IDENTITY,
  org_id     uuid NOT NULL,
  seq        bigint NOT NULL,
  lease_seq  bigint NOT NULL,                     -- the newest lease of the job at that time: a start has a greater one
  granted_at timestamptz NOT NULL,
  started_at timestamptz,                         -- only for limits with a rate, once the granter has seen the start
  is_over    boolean NOT NULL DEFAULT false,      -- the job does not run any more; the row stays for the rate
  PRIMARY KEY (limit_id, id)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

-- Every scheduled job without a lease.
CREATE OR REPLACE VIEW millrace.ready_jobs AS
  SELECT r.order_key AS run_key, CASE WHEN cardinality(r.seqs) = 1 THEN r.order_key ELSE u.seq END AS order_key, r.dies_at, r.org_id,
    r.priority, r.queue, r.job_type, u.seq
  FROM millrace.ready r CROSS JOIN LATERAL unnest(r.seqs[r.taken + 1 :]) AS u(seq)
  UNION ALL
  SELECT order_key, order_key, dies_at, org_id, priority, queue, job_type, seq FROM millrace.limited;

-- When the slot that a start occupies is free again. A claim reads the clock before it takes its snapshot, so it may see a grant that is
-- a little younger than its clock. The 10 ms keep its start from coming too early.
CREATE FUNCTION millrace.slot_free_at(started_at timestamptz, per_ms integer) RETURNS timestamptz
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT started_at + (per_ms + 10) * interval '1 ms' $$;

-- Lets jobs of these limits start, as many as there is room for: at most `most` of each limit. Each statement of the function has its own
-- snapshot, which is newer than the locks that the function holds, so it sees every grant that was given before.
CREATE FUNCTION millrace.grant_limited(of_limits bigint[], most integer)
RETURNS TABLE (limit_id bigint, granted integer, is_held boolean, has_more boolean, next_in_ms double precision)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
  locked bigint[];
BEGIN
  SELECT coalesce(array_agg(l.id), '{}') INTO locked
  FROM (SELECT id FROM millrace.limits WHERE id = ANY (of_limits) ORDER BY id FOR UPDATE SKIP LOCKED) l;

  -- What became of the jobs that have a grant. A job that waits for its children, for its next attempt or for another grant does not
  -- count as running. Whether it started, and when, is kept until the slot of the rate is free.
  WITH seen AS MATERIALIZED (
    SELECT g.limit_id, g.id, g.is_over AS was_over, g.started_at AS was_started, l.per_ms,
      g.is_over OR coalesce(NOT j.is_in_run, true) AS is_over,
      CASE WHEN l.rate IS NULL OR g.started_at IS NOT NULL THEN g.started_at WHEN j.is_in_run IS NULL THEN millrace.clock() ELSE j.started_at END AS started_at
    FROM unnest(locked) AS k(id) JOIN millrace.limits l ON l.id = k.id JOIN millrace.limit_grants g ON g.limit_id = l.id
    LEFT JOIN LATERAL (
      SELECT j.state = 'running' AND NOT j.is_held OR j.state = 'scheduled' AND (j.worker_id IS NOT NULL
          OR NOT EXISTS (SELECT FROM millrace.limited t WHERE t.org_id = j.org_id AND t.seq = j.seq OFFSET 0)) AS is_in_run,
        CASE WHEN l.rate IS NOT NULL AND g.started_at IS NULL AND j.started_lease_seq > g.lease_seq THEN coalesce(greatest(j.started_at, (
          -- The history may show a later time: a record has one time for all jobs that a statement started late.
          SELECT max(r.at) FROM millrace.records r WHERE r.id = ANY (j.record_ids) AND r.at > g.granted_at - interval '1 minute'
            AND r.org_id = j.org_id AND r.to_state = 'running' AND j.seq = ANY (r.seqs))), j.updated_at) END AS started_at
      FROM millrace.jobs j WHERE j.org_id = g.org_id AND j.seq = g.seq AND NOT g.is_over OFFSET 0) j ON true
  ), gone AS (
    DELETE FROM millrace.limit_grants g USING seen s WHERE g.limit_id = s.limit_id AND g.id = s.id AND s.is_over
      AND (s.per_ms IS NULL OR s.started_at IS NULL OR millrace.slot_free_at(s.started_at, s.per_ms) <= millrace.clock())
  )
  UPDATE millrace.limit_grants g SET is_over = s.is_over, started_at = s.started_at
  FROM seen s WHERE g.limit_id = s.limit_id AND g.id = s.id AND (s.is_over, s.started_at) IS DISTINCT FROM (s.was_over, s.was_started)
    AND NOT (s.is_over
      AND (s.per_ms IS NULL OR s.started_at IS NULL OR millrace.slot_free_at(s.started_at, s.per_ms) <= millrace.clock()));

  RETURN QUERY
  WITH RECURSIVE rooms AS MATERIALIZED (
    -- A limit without a row was removed while an open transaction used it: its jobs start without a limit.
    SELECT w.id, w.id = ANY (locked) OR l.id IS NULL AS is_ours, l.org_id, l.per_ms, s.free_at,
      CASE WHEN w.id = ANY (locked) THEN least(most, coalesce(l.concurrency - c.running, most), coalesce(l.rate - s.occupied, most))::int4
           WHEN l.id IS NULL THEN most ELSE 0 END AS room
    FROM (SELECT DISTINCT unnest(of_limits) AS id) w LEFT JOIN millrace.limits l ON l.id = w.id
    CROSS JOIN LATERAL (SELECT count(*) AS running FROM millrace.limit_grants g WHERE g.limit_id = l.id AND NOT g.is_over) c
    CROSS JOIN LATERAL (
      SELECT count(*) AS occupied, min(millrace.slot_free_at(coalesce(g.started_at, millrace.clock()), l.per_ms)) AS free_at
      FROM millrace.limit_grants g WHERE g.limit_id = l.id AND l.rate IS NOT NULL
        AND (g.started_at IS NULL OR millrace.slot_free_at(g.started_at, l.per_ms) > millrace.clock())) s
  ), lanes AS (
    SELECT r.id, t.queue, t.job_type, 1 AS n FROM rooms r CROSS JOIN LATERAL (
      SELECT t.queue, t.job_type FROM millrace.limited t WHERE t.limit_id = r.id ORDER BY t.queue, t.job_type LIMIT 1) t
    WHERE r.room > 0
    UNION ALL
    SELECT p.id, t.queue, t.job_type, p.n + 1 FROM lanes p CROSS JOIN LATERAL (
      SELECT t.queue, t.job_type FROM millrace.limited t WHERE t.limit_id = p.id AND (t.queue, t.job_type) > (p.queue, p.job_type)
      ORDER BY t.queue, t.job_type LIMIT 1) t
    WHERE p.n < 200
  ), candidates AS MATERIALIZED (
    -- A job that no worker could claim would keep its slot.
    SELECT c.*, r.room, row_number() OVER (PARTITION BY r.id ORDER BY c.priority, c.order_key, c.seq) AS place
    FROM lanes x JOIN rooms r ON r.id = x.id CROSS JOIN LATERAL (
      SELECT t.ctid AS tid, t.limit_id, t.priority, t.order_key, t.seq FROM millrace.limited t
      WHERE t.limit_id = x.id AND t.queue = x.queue AND t.job_type = x.job_type ORDER BY t.priority, t.order_key LIMIT r.room) c
    WHERE NOT EXISTS (SELECT FROM millrace.queues q WHERE q.name = x.queue AND q.paused_at IS NOT NULL)
      AND NOT EXISTS (SELECT FROM millrace.job_types y WHERE y.name = x.job_type AND y.paused_at IS NOT NULL)
      AND EXISTS (SELECT FROM millrace.workers w WHERE w.stopped_at IS NULL AND x.job_type = ANY (w.types) AND w.queues && ARRAY[x.queue::text, '*']
        AND (r.org_id IS NULL OR w.orgs_of_types->x.job_type IS NULL OR w.orgs_of_types->x.job_type ? r.org_id::text))
  ), picked AS MATERIALIZED (
    -- A token that was changed since has another address and is left out.
    SELECT t.* FROM candidates c CROSS JOIN LATERAL (
      SELECT t.ctid AS tid, t.* FROM millrace.limited t WHERE t.ctid = c.tid FOR UPDATE SKIP LOCKED) t WHERE c.place <= c.room
  ), fitting AS MATERIALIZED (
    SELECT p.*, j.lease_seq FROM picked p CROSS JOIN LATERAL (
      SELECT j.lease_seq FROM millrace.jobs j WHERE j.org_id = p.org_id AND j.seq = p.seq AND j.limit_id = p.limit_id
        AND j.state = 'scheduled' AND j.worker_id IS NULL AND j.queue = p.queue AND j.job_type = p.job_type AND j.priority = p.priority OFFSET 0) j
  ), taken AS (
    DELETE FROM millrace.limited t USING picked p WHERE t.ctid = p.tid
  ), made_ready AS (
    INSERT INTO millrace.ready (order_key, dies_at, org_id, priority, queue, job_type, seqs)
    SELECT order_key, dies_at, org_id, priority, queue, job_type, ARRAY[seq] FROM fitting
  ), grants AS (
    INSERT INTO millrace.limit_grants (limit_id, org_id, seq, lease_seq, granted_at)
    SELECT limit_id, org_id, seq, lease_seq, millrace.clock() FROM fitting
  )
  SELECT r.id, f.granted, NOT r.is_ours, r.is_ours AND a.candidates > 0 AND (f.granted < least(a.candidates, r.room) OR r.room = most),
    CASE WHEN r.per_ms IS NOT NULL AND (f.granted > 0 OR r.free_at IS NOT NULL) THEN greatest(0,
      (date_part('epoch', least(r.free_at, CASE WHEN f.granted > 0 THEN millrace.slot_free_at(millrace.clock(), r.per_ms) END) - millrace.clock()) * 1000)) END
  FROM rooms r
  CROSS JOIN LATERAL (SELECT count(*)::int4 AS granted FROM fitting f WHERE f.limit_id = r.id) f
  CROSS JOIN LATERAL (SELECT count(*)::int4 AS candidates FROM candidates c WHERE c.limit_id = r.id) a;
END $$;
