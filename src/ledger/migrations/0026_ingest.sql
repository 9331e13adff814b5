-- Purpose: the ingest door (decision 0059): jobs that download many resources, their idempotency keys, and the streams jobs.tasks,
-- jobs.logs and jobs.dlq. Locks: `orgs`, for a moment. Breaking: no.
--
-- The status and the counters of an ingest job are never stored while it runs. They are derived from the rows of the jobs that download its
-- resources, so nothing can drift. When a download has ended, its end is copied to `ingest_resources`, because the row of the
-- job is removed after a week; when all have ended, the sums are copied to `ingest_jobs`.

-- The name that a FetchBox client knows an org by: the tenant of its requests.
ALTER TABLE millrace.orgs ADD COLUMN external_ref text CHECK (external_ref <> '');
CREATE UNIQUE INDEX orgs_by_external_ref ON millrace.orgs (external_ref) WHERE external_ref IS NOT NULL;  -- the org of a tenant

CREATE TABLE millrace.ingest_jobs (
  id                uuid PRIMARY KEY,                -- version 7
  org_id            uuid NOT NULL REFERENCES millrace.orgs (id) ON DELETE CASCADE,
  job_type          text NOT NULL,
  tenant            text,
  bucket            text NOT NULL,                   -- of metadata.json and manifest.json
  manifest_sha256   text NOT NULL,
  resource_count    integer NOT NULL CHECK (resource_count >= 0),  -- in the manifest
  resource_total    integer NOT NULL CHECK (resource_total >= 0),  -- tasks; a handler may leave resources out
  stored_bytes      bigint NOT NULL,                 -- what it takes in the ledger, about
  log_offset        bigint NOT NULL,                 -- the head of jobs.logs when it was accepted: its lines have no lower offset
  actor             text NOT NULL,
  request_id        text,
  created_at        timestamptz NOT NULL,
  updated_at        timestamptz NOT NULL,
  round             integer NOT NULL DEFAULT 0,      -- how often it has ended
  settled_at        timestamptz,                     -- when all resources had ended
  completed         integer,
  failed            integer,
  bytes             bigint,
  last_error        jsonb,                           -- the newest error when it ended
  finalizer_id      uuid,                            -- the newest job that calls the handler
  CONSTRAINT ended_jobs_have_sums CHECK ((settled_at IS NULL) = (completed IS NULL) AND (settled_at IS NULL) = (failed IS NULL)
    AND (settled_at IS NULL) = (bytes IS NULL) AND (settled_at IS NULL OR completed + failed = resource_total))
) WITH (fillfactor = 80);
CREATE INDEX ingest_jobs_by_org ON millrace.ingest_jobs (org_id, created_at DESC, id DESC);   -- the list of one org
CREATE INDEX ingest_jobs_by_time ON millrace.ingest_jobs (created_at DESC, id DESC);          -- the operators' list
CREATE INDEX ingest_jobs_open ON millrace.ingest_jobs (id) WHERE settled_at IS NULL;          -- the settler
CREATE INDEX ingest_jobs_by_end ON millrace.ingest_jobs (settled_at) WHERE settled_at IS NOT NULL;  -- the pruner

CREATE TABLE millrace.ingest_resources (
  job_id       uuid NOT NULL REFERENCES millrace.ingest_jobs (id) ON DELETE CASCADE,
  position     integer NOT NULL,                     -- in the order of the tasks
  org_id       uuid NOT NULL,
  resource_id  text NOT NULL,
  task_id      uuid NOT NULL,                        -- the job that downloads it
  -- Copied from that job when it has ended.
  ended_state  millrace.job_state CHECK (ended_state >= 'completed'),
  ended_at     timestamptz,
  bytes        bigint,
  error        jsonb,
  PRIMARY KEY (job_id, position),
  CONSTRAINT ends_have_a_time CHECK ((ended_state IS NULL) = (ended_at IS NULL))
) WITH (fillfactor = 80);
CREATE UNIQUE INDEX ingest_resources_by_id ON millrace.ingest_resources (job_id, resource_id);  -- one task for each resource
CREATE UNIQUE INDEX ingest_resources_by_task ON millrace.ingest_resources (task_id);            -- the settler: whose job has ended

CREATE TABLE millrace.ingest_keys (
  org_id        uuid NOT NULL,
  job_type      text NOT NULL,
  key           text NOT NULL,
  -- The key is written first, so that a repeat is known before anything else is written.
  job_id        uuid NOT NULL REFERENCES millrace.ingest_jobs (id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
  fingerprint   text NOT NULL,
  first_seen_at timestamptz NOT NULL,
  expires_at    timestamptz NOT NULL,
  PRIMARY KEY (org_id, job_type, key)
);
CREATE INDEX ingest_keys_by_expiry ON millrace.ingest_keys (expires_at);  -- the pruner
CREATE INDEX ingest_keys_by_job ON millrace.ingest_keys (job_id);         -- the removal of a job

-- Written before the objects of a job, and removed by the transaction that accepts it. What is left belongs to no job.
CREATE TABLE millrace.ingest_intents (
  job_id     uuid PRIMARY KEY,
  bucket     text NOT NULL,
  job_type   text NOT NULL,
  created_at timestamptz NOT NULL
);
CREATE INDEX ingest_intents_by_time ON millrace.ingest_intents (created_at);  -- the sweeper

-- The requests of an org to the ingest API in the current minute. Only used if a limit is configured.
CREATE TABLE millrace.ingest_rates (
  org_id    uuid PRIMARY KEY,
  window_no bigint NOT NULL,
  used      integer NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE millrace.streams (
  name        text PRIMARY KEY,
  next_offset bigint NOT NULL DEFAULT 0              -- of the next entry that is numbered
);
INSERT INTO millrace.streams (name) VALUES ('jobs.tasks'), ('jobs.logs'), ('jobs.dlq');

-- An entry has no offset until its transaction is committed. Then a numberer gives it one, under the lock of the row in `streams`. So
-- offsets follow the order of commits, no reader skips an entry that is committed late, and a dump keeps them.
CREATE TABLE millrace.stream_entries (
  id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  stream        text NOT NULL REFERENCES millrace.streams (name),
  stream_offset bigint,
  org_id        uuid NOT NULL,
  job_id        uuid NOT NULL,
  at            timestamptz NOT NULL,
  body          json NOT NULL
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 50000);
CREATE UNIQUE INDEX stream_entries_in_order ON millrace.stream_entries (stream, stream_offset) WHERE stream_offset IS NOT NULL;  -- readers
CREATE INDEX stream_entries_of_job ON millrace.stream_entries (job_id, stream, stream_offset) WHERE stream_offset IS NOT NULL;   -- the log of a job
CREATE INDEX stream_entries_new ON millrace.stream_entries (stream, id) WHERE stream_offset IS NULL;                              -- the numberer
CREATE INDEX stream_entries_by_age ON millrace.stream_entries (stream, at);                                                       -- the trimmer
