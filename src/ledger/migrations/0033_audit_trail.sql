-- Purpose: the audit trail: rows in one hash chain per org, made by a loop from records and requested actions. Locks: `jobs` against writes
-- while the index is built; `audit_actions`, for a moment. Breaking: no.

-- Rows that a handler writes name the worker that ran it.
ALTER TABLE millrace.audit_actions ADD performed_by text;

-- One row for each thing that happened. No foreign key to jobs or orgs: rows outlive both. Times have milliseconds, as exports show them; a
-- check of the chain refuses finer ones, so that no part of a row is outside of its hash.
CREATE TABLE millrace.audit_rows (
  id             bigint PRIMARY KEY,                -- in the order of all chains together; the list of all orgs
  org_id         uuid NOT NULL,                     -- the nil uuid: no org's data
  position       bigint NOT NULL,                   -- 1, 2, 3 ... within the chain of the org
  recorded_at    timestamptz NOT NULL,              -- never decreases with the id
  at             timestamptz NOT NULL,
  event          text NOT NULL,
  project_id     uuid,
  actor_type     text NOT NULL,
  actor_id       text NOT NULL,
  performed_by   text,
  request_id     text,
  correlation_id text,
  job_id         uuid,
  job_type       text,
  attempt        integer,
  details        json NOT NULL,                     -- canonical text; not jsonb, which cannot hold every text
  hash           bytea NOT NULL,
  CONSTRAINT impossible_rows_are_refused CHECK (
    position > 0 AND actor_type IN ('user', 'system', 'api_key') AND octet_length(hash) = 32)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 50000, autovacuum_vacuum_insert_threshold = 100000);
CREATE UNIQUE INDEX audit_rows_of_chain ON millrace.audit_rows (org_id, id);     -- lists, exports and checks of one org
CREATE INDEX audit_rows_of_job ON millrace.audit_rows (job_id) WHERE job_id IS NOT NULL;  -- the rows of a job

-- Where each chain begins and ends. Retention removes rows from the front and keeps the hash of the last one that it removed, so that the
-- rest can still be checked. The end shows whether rows are missing there.
CREATE TABLE millrace.audit_chains (
  org_id         uuid PRIMARY KEY,
  first_position bigint NOT NULL DEFAULT 1,
  first_id       bigint NOT NULL,                   -- no row of the chain has a lower id
  anchor_hash    bytea NOT NULL,                    -- of the row before the first; 32 zero bytes before row 1
  last_position  bigint NOT NULL,
  last_id        bigint NOT NULL,
  last_hash      bytea NOT NULL,
  CHECK (first_position > 0 AND last_position >= first_position - 1)
) WITH (fillfactor = 80);

CREATE TABLE millrace.audit_state (
  is_only     boolean PRIMARY KEY DEFAULT true CHECK (is_only),
  last_id     bigint NOT NULL,
  recorded_at timestamptz NOT NULL,
  max_lag     interval NOT NULL                     -- no row was recorded later than this after its time
) WITH (fillfactor = 50);
INSERT INTO millrace.audit_state (last_id, recorded_at, max_lag) VALUES (0, '-infinity', '0');

-- Jobs from before are not in the trail.
INSERT INTO millrace.projections (name, txid)
  VALUES ('audit', ((pg_snapshot_xmin(pg_current_snapshot())::text::int8 + millrace.txid_offset())::text::xid8));

-- Orgs with governed jobs, and the governed ones among many jobs. No column changes later, so it costs an entry at the submission of a
-- governed job and nothing else.
CREATE INDEX jobs_governed ON millrace.jobs (org_id, seq)
  WHERE category IN ('notification', 'audit_enrichment', 'planning', 'import_export', 'maintenance');

-- The first id that was recorded at or after a time. `recorded_at` never decreases, so it halves the range of ids.
CREATE FUNCTION millrace.audit_id_at(moment timestamptz) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
DECLARE
  low bigint := 0;
  high bigint := (SELECT last_id + 1 FROM millrace.audit_state);
  middle bigint;
  found record;
BEGIN
  WHILE low < high LOOP
    middle := low + (high - low) / 2;
    SELECT r.id, r.recorded_at INTO found FROM millrace.audit_rows r WHERE r.id >= middle ORDER BY r.id LIMIT 1;
    IF found.id IS NULL OR found.recorded_at >= moment THEN high := middle; ELSE low := found.id + 1; END IF;
  END LOOP;
  RETURN low;
END $$;
