-- Purpose: artifacts, which are files that belong to an org and often to a job, and the time of the last repeat of an idempotency key
-- (decision 0068). Locks: `idempotency_keys`, for a moment (a nullable column and a trigger are added). Breaking: no.

-- The first submission inserts the row and does not touch the column. Only a repeat updates a row, so the trigger costs new jobs nothing.
-- It also covers `millrace.submit`. Null: the key was not repeated.
ALTER TABLE millrace.idempotency_keys ADD last_seen_at timestamptz;

CREATE FUNCTION millrace.note_repeated_key() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  -- A key that had expired belongs to a new job now.
  NEW.last_seen_at := CASE WHEN NEW.job_id = OLD.job_id THEN millrace.clock() END;
  RETURN NEW;
END $$;

CREATE TRIGGER idempotency_keys_repeated BEFORE UPDATE ON millrace.idempotency_keys FOR EACH ROW EXECUTE FUNCTION millrace.note_repeated_key();

-- `uploading`: the object may exist, and readers do not see the artifact. `stored`: readers see it until it expires. `removed`: the object
-- is deleted next, and then the row. So an object never exists without a row that leads to it, whenever a process dies.
CREATE TABLE millrace.artifacts (
  id           uuid PRIMARY KEY,
  org_id       uuid NOT NULL,
  project_id   uuid,
  job_id       uuid,                               -- the job whose handler wrote it; null for an upload
  attempt      integer,
  state        text NOT NULL CHECK (state IN ('uploading', 'stored', 'removed')),
  name         text NOT NULL CHECK (length(name) BETWEEN 1 AND 255),
  content_type text NOT NULL,
  purpose      text CHECK (purpose IN ('import')),
  size         bigint CHECK (size >= 0),
  sha256       bytea CHECK (length(sha256) = 32),
  bucket       text NOT NULL,
  object_key   text NOT NULL,
  created_by   text NOT NULL,                      -- `api_key:` or `system:`, and an id
  created_at   timestamptz NOT NULL,
  expires_at   timestamptz NOT NULL,               -- when the sweeper takes it; for an upload, when it is given up
  CHECK (state <> 'stored' OR size IS NOT NULL AND sha256 IS NOT NULL)
);
CREATE INDEX artifacts_of_job ON millrace.artifacts (org_id, job_id, created_at, id) WHERE state = 'stored';  -- the artifacts of a job, and sums of an org
CREATE INDEX artifacts_due ON millrace.artifacts (expires_at);                                                -- the sweeper
