-- Purpose: the ledger of jobs. Locks: none (new schema). Breaking: no.
--
-- The design in one paragraph. A job is one row in `jobs`; that row is the truth about its state. While a job waits it
-- also has a token: a place in a row of `ready` (scheduled), or a narrow row in `timers` (delayed, retrying) or `waiting` (pending, or running
-- with its completion held for children). Tokens only say where to look: whoever takes one checks the job's row and drops
-- a token that no longer fits. A claim is one row in `claims` for all jobs that one statement gave one worker; a lease
-- lives as long as its worker's heartbeat is younger than the job's lease duration, so a heartbeat is one row however many
-- jobs run. Every transition is written to `records` by the same statement.
--
-- Why tokens instead of partial indexes on `jobs`: an index that mentions `state` makes every state change rewrite every
-- index entry of the row. Without one, starting and finishing a job are HOT updates that touch no index at all. Measured
-- on 2 cores, 64 slots, full history: one table with partial indexes drains 15 000 jobs/s, tokens plus a lease row per job
-- 25 000, tokens plus one claim row per statement 31 000 (500 at a time: 20 000, 30 000, 40 000).
CREATE SCHEMA IF NOT EXISTS millrace;

-- Only this clock decides what is due, leased or expired. SQL functions this small are inlined, so it costs nothing;
-- millrace/testing replaces it in its own database to move time.
CREATE FUNCTION millrace.clock() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE AS 'SELECT pg_catalog.statement_timestamp()';

CREATE TYPE millrace.job_state AS ENUM
  ('pending', 'delayed', 'scheduled', 'running', 'retrying', 'completed', 'failed', 'dead_letter', 'cancelled');

CREATE TABLE millrace.orgs (
  id          uuid PRIMARY KEY,
  slug        text NOT NULL UNIQUE CHECK (slug ~ '^[a-z0-9][a-z0-9._-]{0,99}$'),
  max_running integer CHECK (max_running >= 0),  -- cap on running jobs, null = none
  created_at  timestamptz NOT NULL DEFAULT now()
);
INSERT INTO millrace.orgs (id, slug) VALUES ('00000000-0000-4000-8000-000000000000', 'default');

-- The policy a job keeps for life. Jobs share few distinct ones, so each is stored once and named by number.
CREATE TABLE millrace.policies (
  id   integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  hash text NOT NULL UNIQUE,
  body jsonb NOT NULL
);

CREATE TABLE millrace.queues (
  name         text PRIMARY KEY,
  claim_order  text NOT NULL DEFAULT 'fifo' CHECK (claim_order IN ('fifo', 'fair')),
  paused_at    timestamptz,
  virtual_time bigint NOT NULL DEFAULT 0          -- fair order: the highest stamp claimed so far
);
INSERT INTO millrace.queues (name) VALUES ('q:default');

-- Where each org stands in a fair queue: the stamp of its newest job there.
CREATE TABLE millrace.fair_stamps (
  queue  text NOT NULL,
  org_id uuid NOT NULL,
  stamp  bigint NOT NULL,
  PRIMARY KEY (queue, org_id)
);

-- What workers announced about the types they handle, so that any process can resolve a job's policy.
CREATE TABLE millrace.job_types (
  name           text PRIMARY KEY,
  defaults       jsonb NOT NULL DEFAULT '{}',
  concurrency    integer CHECK (concurrency >= 1), -- cap over all workers, null = none
  custom_backoff boolean NOT NULL DEFAULT false,
  paused_at      timestamptz,
  announced_at   timestamptz NOT NULL
);

CREATE TABLE millrace.workers (
  id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name       text NOT NULL,
  host       text NOT NULL,
  pid        integer NOT NULL,
  types      text[] NOT NULL,
  queues     text[] NOT NULL,
  slots      integer NOT NULL,
  started_at timestamptz NOT NULL,
  beat_at    timestamptz NOT NULL,                -- changes with every heartbeat, so never indexed
  stopped_at timestamptz
) WITH (fillfactor = 50);

CREATE SEQUENCE millrace.job_seq;    -- order of submission
CREATE SEQUENCE millrace.lease_seq;  -- fencing tokens: every claim takes the next, none is ever used again

CREATE TABLE millrace.jobs (
  seq                bigint NOT NULL,
  org_id             uuid NOT NULL,
  id                 uuid NOT NULL,
  created_at         timestamptz NOT NULL,
  updated_at         timestamptz NOT NULL,        -- last change of state
  run_at             timestamptz NOT NULL,        -- earliest start
  scheduled_at       timestamptz,                 -- when it last entered `scheduled`
  claimed_at         timestamptz,                 -- when it was last leased by a claim that did not start it
  started_at         timestamptz,
  completed_at       timestamptz,
  lifetime_deadline  timestamptz,
  lease_seq          bigint NOT NULL DEFAULT 0,   -- the newest lease
  started_lease_seq  bigint NOT NULL DEFAULT 0,   -- the lease of the newest attempt that started
  previous_lease_seq bigint NOT NULL DEFAULT 0,   -- the lease of the attempt before that one
  worker_id          bigint,                      -- who holds the lease
  order_key          bigint NOT NULL,             -- claim order within its priority
  parent_seq         bigint,
  policy_id          integer NOT NULL,
  state              millrace.job_state NOT NULL,
  priority           smallint NOT NULL,
  requested_priority smallint NOT NULL,
  attempts_started   smallint NOT NULL DEFAULT 0,
  attempt_slot       smallint NOT NULL DEFAULT 1,
  max_attempts       smallint NOT NULL,
  round              smallint NOT NULL DEFAULT 0, -- grows when a manual retry resets the attempts
  event_count        integer NOT NULL,
  record_ids         bigint[] NOT NULL,           -- of its history, one for each event
  depth              smallint NOT NULL DEFAULT 0,
  has_dependents     boolean NOT NULL DEFAULT false,
  joins_parent       boolean NOT NULL DEFAULT false, -- its parent's completion waits for it
  is_held            boolean NOT NULL DEFAULT false, -- its handler is done, its completion waits for its children
  queue              text NOT NULL,
  job_type           text NOT NULL,
  dependency_type    text,
  idempotency_key    text,
  keyed_type         text,                        -- the type its key was sent with; null: `job_type`, which was never changed
  correlation_id     text,
  callback_url       text,
  request_id         text,                        -- of the request that brought it; null: the job's own id
  category           text,
  project_id         uuid,
  traceparent        text,
  actor              text,
  tags               jsonb,
  payload            json,
  payload_bytes      bytea,
  result             json,
  result_bytes       bytea,
  last_error         json,
  -- One expression and not six: dropping six constraints made a statement of 300 starts and 300 finishes 8.2 instead of
  -- 9.5 ms (one run, busy machine). The four final states are the last of their type.
  CONSTRAINT impossible_rows_are_refused CHECK (
    (completed_at IS NOT NULL) = (state >= 'completed')                              -- only final jobs have an end
    AND (worker_id IS NULL OR state = 'running' OR state = 'scheduled')              -- only claimed jobs have a worker
    AND (state <> 'running' OR worker_id IS NOT NULL OR is_held)                     -- running jobs are leased or held
    AND (attempts_started = 0 OR started_at IS NOT NULL) AND attempts_started >= 0
    AND max_attempts >= 1 AND max_attempts <= 100 AND priority >= 0 AND priority <= 4)
) WITH (
  -- Half of each page is kept free so that starting and finishing stay inside it (HOT). At 85 the drain is a third slower.
  fillfactor = 50,
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 50000,
  autovacuum_analyze_scale_factor = 0.05
);
CREATE UNIQUE INDEX jobs_by_org ON millrace.jobs (org_id, seq);       -- lists; every write a worker causes
CREATE UNIQUE INDEX jobs_by_id ON millrace.jobs (id);                 -- get; ids are unique over all orgs
CREATE INDEX jobs_by_parent ON millrace.jobs (org_id, parent_seq) WHERE parent_seq IS NOT NULL;  -- children of a job

-- The jobs that may start. A row is a run: jobs of one lane (queue, type, priority) and org that one statement made ready, taken from
-- the front. A row and an index entry for each job were a quarter of what submitting cost the database.
CREATE TABLE millrace.ready (
  order_key bigint NOT NULL,                      -- of its first job; the others follow by `seq`
  dies_at   timestamptz,
  org_id    uuid NOT NULL,
  taken     integer NOT NULL DEFAULT 0,           -- how many of `seqs`, from the front, are gone
  priority  smallint NOT NULL,
  queue     text COLLATE "C" NOT NULL,
  job_type  text COLLATE "C" NOT NULL,
  seqs      bigint[] NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_cost_delay = 0);
-- The claim: one flat scan per lane, with a moving lower bound on order_key. Not led by the org, because a claim serves all orgs
-- at once.
CREATE INDEX ready_in_claim_order ON millrace.ready (queue, job_type, priority, order_key);
CREATE VIEW millrace.ready_jobs AS
  SELECT r.order_key AS run_key, CASE WHEN cardinality(r.seqs) = 1 THEN r.order_key ELSE u.seq END AS order_key, r.dies_at, r.org_id,
    r.priority, r.queue, r.job_type, u.seq
  FROM millrace.ready r CROSS JOIN LATERAL unnest(r.seqs[r.taken + 1 :]) AS u(seq);

CREATE TABLE millrace.timers (
  run_at  timestamptz NOT NULL,
  dies_at timestamptz,
  seq     bigint NOT NULL,
  org_id  uuid NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX timers_by_time ON millrace.timers (run_at);              -- the stager

CREATE TABLE millrace.waiting (
  dies_at timestamptz,
  seq     bigint NOT NULL,
  org_id  uuid NOT NULL,
  PRIMARY KEY (org_id, seq)
);

CREATE TABLE millrace.claims (
  worker_id  bigint NOT NULL,
  claim_no   bigint NOT NULL,
  org_id     uuid NOT NULL,
  job_type   text NOT NULL,
  seqs       bigint[] NOT NULL,
  PRIMARY KEY (worker_id, claim_no, org_id, job_type)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
ALTER TABLE millrace.claims ALTER seqs SET STORAGE EXTERNAL;         -- to compress numbers takes longer than to write them
CREATE INDEX claims_by_type ON millrace.claims (job_type);            -- caps per type

CREATE TABLE millrace.cancel_requests (
  org_id       uuid NOT NULL,
  seq          bigint NOT NULL,
  is_forced    boolean NOT NULL,
  reason       text,
  actor        text,
  requested_at timestamptz NOT NULL,
  PRIMARY KEY (org_id, seq)
);

-- Takes the request to cancel a job that the caller has locked. Volatile, so that it sees with a snapshot of its own: a request
-- that was committed while the caller waited for the lock is younger than the snapshot of the caller's statement.
CREATE FUNCTION millrace.take_cancel_request(of_org uuid, of_seq bigint)
RETURNS TABLE (is_taken boolean, reason text, actor text) LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  RETURN QUERY DELETE FROM millrace.cancel_requests r WHERE r.org_id = of_org AND r.seq = of_seq RETURNING true, r.reason, r.actor;
END $$;

CREATE TABLE millrace.dependencies (
  org_id         uuid NOT NULL,
  job_seq        bigint NOT NULL,
  depends_on_seq bigint NOT NULL,
  PRIMARY KEY (org_id, job_seq, depends_on_seq)
);
CREATE INDEX dependencies_by_target ON millrace.dependencies (org_id, depends_on_seq);  -- who waits for this job

-- Jobs that ended while others waited for them: written with the end, consumed by the releaser.
CREATE TABLE millrace.releases (
  id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  org_id uuid NOT NULL,
  seq    bigint NOT NULL
);

CREATE TABLE millrace.idempotency_keys (
  org_id      uuid NOT NULL,
  scope       text NOT NULL,                       -- the job type, and the project of jobs that have one
  key         text NOT NULL,
  job_id      uuid NOT NULL,
  fingerprint text NOT NULL,
  expires_at  timestamptz NOT NULL,
  PRIMARY KEY (org_id, scope, key)
);
CREATE INDEX idempotency_keys_by_expiry ON millrace.idempotency_keys (expires_at);      -- the pruner

-- The table of transitions, as src/core/transitions.ts has it; a test compares every pair and reason. The usual steps come first. A function,
-- because a statement reads the whole text of a CHECK before its first row: 170 us with this in it, 4 us with the call (single
-- rows, one session; best of nine).
CREATE FUNCTION millrace.is_transition(from_state millrace.job_state, to_state millrace.job_state, reason text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$ BEGIN
  RETURN CASE from_state
    WHEN 'pending' THEN CASE to_state
      WHEN 'scheduled' THEN reason IN ('submitted', 'dependencies_met')
      WHEN 'delayed' THEN reason IN ('submitted', 'dependencies_met')
      WHEN 'failed' THEN reason IN ('dependency_failed', 'chain_stopped')
      WHEN 'dead_letter' THEN reason IN ('dependency_dead_letter', 'chain_stopped', 'lifetime_exceeded')
      WHEN 'cancelled' THEN reason IN ('dependency_cancelled', 'chain_stopped', 'cancelled')
      ELSE false END
    WHEN 'scheduled' THEN CASE to_state
      WHEN 'running' THEN reason = 'started'
      WHEN 'dead_letter' THEN reason = 'lifetime_exceeded'
      WHEN 'cancelled' THEN reason = 'cancelled'
      ELSE false END
    WHEN 'running' THEN CASE to_state
      WHEN 'completed' THEN reason = 'succeeded'
      WHEN 'retrying' THEN reason IN ('temporary_failure', 'timed_out', 'system_failure', 'worker_lost', 'released')
      WHEN 'failed' THEN reason IN ('permanent_failure', 'worker_lost', 'temporary_failure', 'timed_out', 'system_failure')
      WHEN 'dead_letter' THEN reason IN ('attempts_exhausted', 'lifetime_exceeded')
      WHEN 'cancelled' THEN reason = 'cancelled'
      ELSE false END
    WHEN 'delayed' THEN CASE to_state
      WHEN 'scheduled' THEN reason = 'delay_elapsed'
      WHEN 'dead_letter' THEN reason = 'lifetime_exceeded'
      WHEN 'cancelled' THEN reason = 'cancelled'
      ELSE false END
    WHEN 'retrying' THEN CASE to_state
      WHEN 'scheduled' THEN reason IN ('backoff_elapsed', 'released', 'worker_lost')
      WHEN 'failed' THEN reason = 'retry_dropped'
      WHEN 'dead_letter' THEN reason = 'lifetime_exceeded'
      WHEN 'cancelled' THEN reason = 'cancelled'
      ELSE false END
    WHEN 'failed' THEN CASE to_state
      WHEN 'scheduled' THEN reason = 'manual_retry'
      WHEN 'delayed' THEN reason = 'manual_retry'
      ELSE false END
    WHEN 'dead_letter' THEN CASE to_state
      WHEN 'scheduled' THEN reason = 'manual_retry'
      WHEN 'delayed' THEN reason = 'manual_retry'
      ELSE false END
    ELSE from_state IS NULL AND to_state = 'pending' AND reason = 'submitted' END;
END $$;

-- History: every transition is written by the statement that makes it, never changed, and found from its job and from the feed.
-- A statement writes one record for all jobs that it moves in the same way, and the jobs keep the number of the record. A row for
-- each transition, with its index entries, was a third of what the database did for a job.
--
-- Daily partitions (made ahead by the pruner), dropped whole once no job they speak of is left.
CREATE SEQUENCE millrace.record_id;
CREATE TABLE millrace.records (
  id         bigint NOT NULL,                       -- of the statement; the records it writes share it
  txid       xid8 NOT NULL DEFAULT pg_current_xact_id(),
  at         timestamptz NOT NULL,
  org_id     uuid NOT NULL,
  worker_id  bigint,
  from_state millrace.job_state,                    -- null: born pending and waiting
  to_state   millrace.job_state NOT NULL,
  priority   smallint NOT NULL,
  is_tagged  boolean NOT NULL DEFAULT false,        -- its jobs were born with tags
  job_type   text NOT NULL,
  reason     text NOT NULL,
  actor      text,
  seqs       bigint[] NOT NULL,
  ns         integer[],                             -- 1, 2, 3 ... within each job; absent: all 1
  lease_seqs bigint[],                              -- absent: no lease yet
  attempts   smallint[],                            -- absent: none yet
  rounds     smallint[],                            -- absent: all 0
  took_ms    real[],                                -- how long an attempt waited (its start) or ran (its end)
  details    json[],                                -- the failure of an attempt, the words of a cancel, the time under lease before a start
  CONSTRAINT transitions_are_legal CHECK (millrace.is_transition(from_state, to_state, reason))
) PARTITION BY RANGE (at);
-- Compressing numbers costs more than writing them.
ALTER TABLE millrace.records
  ALTER seqs SET STORAGE EXTERNAL, ALTER ns SET STORAGE EXTERNAL, ALTER lease_seqs SET STORAGE EXTERNAL,
  ALTER attempts SET STORAGE EXTERNAL, ALTER rounds SET STORAGE EXTERNAL, ALTER took_ms SET STORAGE EXTERNAL;
CREATE INDEX records_by_id ON millrace.records (id);               -- history of a job
-- A reader that remembers "the newest row I saw" by time or by sequence skips whatever commits later with an older mark. The
-- number of the transaction has no such gap: once every transaction below `pg_snapshot_xmin(pg_current_snapshot())` is over,
-- no row can appear below it any more. A transaction left open holds readers back; it never makes them skip.
CREATE INDEX records_in_feed_order ON millrace.records (txid, id); -- the feed; what is counted from records
CREATE INDEX failures_by_time ON millrace.records (org_id, at)
  WHERE to_state IN ('failed', 'dead_letter', 'retrying');         -- failure search
CREATE TABLE millrace.records_default PARTITION OF millrace.records DEFAULT;

-- One row per transition, to read.
CREATE VIEW millrace.events AS
  SELECT r.id AS record_id, r.txid, r.at, u.job_seq, r.org_id, r.worker_id, coalesce(u.lease_seq, 0) AS lease_seq, r.from_state,
    r.to_state, coalesce(u.n, 1) AS n, coalesce(u.attempt, 0::smallint) AS attempt, coalesce(u.round, 0::smallint) AS round,
    r.job_type, r.priority, r.reason, r.actor, u.took_ms, u.detail
  FROM millrace.records r CROSS JOIN LATERAL
    unnest(r.seqs, r.ns, r.lease_seqs, r.attempts, r.rounds, r.took_ms, r.details) AS u(job_seq, n, lease_seq, attempt, round, took_ms, detail);

CREATE TABLE millrace.progress (
  org_id     uuid NOT NULL,
  seq        bigint NOT NULL,
  percent    smallint NOT NULL CHECK (percent BETWEEN 0 AND 100),
  message    text,
  updated_at timestamptz NOT NULL,
  PRIMARY KEY (org_id, seq)
) WITH (fillfactor = 70);

CREATE TABLE millrace.checkpoints (
  org_id    uuid NOT NULL,
  seq       bigint NOT NULL,
  state     bytea NOT NULL,
  lease_seq bigint NOT NULL,
  saved_at  timestamptz NOT NULL,
  PRIMARY KEY (org_id, seq)
) WITH (fillfactor = 70);

-- Recurring jobs. `next_at` is moved and the job submitted by one statement, so several processes never fire twice.
CREATE TABLE millrace.schedules (
  org_id        uuid NOT NULL,
  key           text NOT NULL,
  cron          text NOT NULL,
  time_zone     text NOT NULL,
  missed        text NOT NULL CHECK (missed IN ('none', 'one', 'all')),
  submission    json NOT NULL,
  next_at       timestamptz NOT NULL,
  last_fired_at timestamptz,
  created_at    timestamptz NOT NULL,
  PRIMARY KEY (org_id, key)
);
CREATE INDEX schedules_by_time ON millrace.schedules (next_at);       -- the scheduler
