-- Purpose: API keys and the rate limit of an org. Locks: orgs, exclusively and for a moment (a nullable column is added).
-- Breaking: no.

ALTER TABLE millrace.orgs ADD COLUMN requests_per_minute integer CHECK (requests_per_minute >= 1); -- null = as configured

-- A key is looked up by its id, which is no secret; of the secret only a hash is kept.
CREATE TABLE millrace.api_keys (
  id           text COLLATE "C" PRIMARY KEY,
  org_id       uuid NOT NULL REFERENCES millrace.orgs (id),
  project_id   uuid,
  name         text NOT NULL CHECK (length(name) BETWEEN 1 AND 100),
  secret_hash  bytea NOT NULL CHECK (octet_length(secret_hash) = 32),
  scopes       text[] NOT NULL,
  created_at   timestamptz NOT NULL,
  expires_at   timestamptz NOT NULL CHECK (expires_at > created_at),
  last_used_at timestamptz,                        -- to the minute: not every request writes
  revoked_at   timestamptz
) WITH (fillfactor = 80);
CREATE INDEX api_keys_by_org ON millrace.api_keys (org_id, created_at, id);  -- lists

-- How many requests of the current minute processes have taken for an org. They take blocks and count inside them alone, so
-- that no request asks the ledger. One row per org; a new minute begins by overwriting it.
CREATE TABLE millrace.rate_leases (
  org_id    uuid PRIMARY KEY REFERENCES millrace.orgs (id) ON DELETE CASCADE,
  window_no bigint NOT NULL,                       -- minutes since 1970
  maximum   integer NOT NULL,
  leased    integer NOT NULL,                      -- over all processes in this window
  granted   integer NOT NULL                       -- to the process that came last
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
