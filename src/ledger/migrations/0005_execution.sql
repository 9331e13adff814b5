-- Purpose: clients of the execution API, replies to repeated creations, quotas. Locks: none on what exists but `api_keys`,
-- which cannot be written while a small index is built. Breaking: no.

-- A client is an org that was made through the execution API. An org without a row here was made by an operator, who
-- gives it its keys.
CREATE TABLE millrace.clients (
  org_id              uuid PRIMARY KEY REFERENCES millrace.orgs (id),
  created_at          timestamptz NOT NULL,
  first_key_issued_at timestamptz                  -- set once, by compare and set; nothing else of a client changes
);

-- What a creation answered to a caller's key, without secrets. The scope says what was created and for whom.
CREATE TABLE millrace.create_replies (
  scope       text COLLATE "C" NOT NULL,
  key         text COLLATE "C" NOT NULL CHECK (length(key) <= 256),
  fingerprint text NOT NULL,
  reply       json NOT NULL,
  expires_at  timestamptz NOT NULL,
  PRIMARY KEY (scope, key)
);
CREATE INDEX create_replies_by_expiry ON millrace.create_replies (expires_at);  -- the pruner

-- Requests of a client in the current UTC day; written only where a quota is configured.
CREATE TABLE millrace.quota_uses (
  org_id uuid PRIMARY KEY REFERENCES millrace.orgs (id) ON DELETE CASCADE,
  day_no bigint NOT NULL,                           -- since 1970
  used   integer NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

CREATE INDEX api_keys_by_revocation ON millrace.api_keys (revoked_at) WHERE revoked_at IS NOT NULL;  -- the pruner
