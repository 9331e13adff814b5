-- Purpose: show other processes that the event loop of a worker's process is blocked; send events only to verified endpoints, and only so
-- many to one host. Locks: `workers`, for a moment (a column without a default). Breaking: no. A worker of an older program leaves
-- the column null, and sends events without the new checks.
ALTER TABLE millrace.workers
  ADD stalled_at timestamptz;  -- since when its event loop has not run; null while it runs

-- Origins that accepted a test message of an org. `origin` is that of a lane, so callbacks and webhooks are verified separately.
CREATE TABLE millrace.verified_origins (
  org_id      uuid NOT NULL,
  origin      uuid NOT NULL,
  verified_at timestamptz NOT NULL,
  PRIMARY KEY (org_id, origin)
);
CREATE INDEX verified_origins_by_age ON millrace.verified_origins (verified_at);  -- retention

-- What has accepted an event before needs no test.
INSERT INTO millrace.verified_origins (org_id, origin, verified_at)
  SELECT org_id, origin, millrace.clock() FROM millrace.webhook_lanes WHERE delivered_total > 0
  UNION SELECT org_id, origin, millrace.clock() FROM millrace.callback_origins WHERE failures = 0;

-- A token bucket for each host that was called lately, over all orgs. Only the promoter that holds its lock writes it.
CREATE TABLE millrace.webhook_hosts (
  host       text PRIMARY KEY,
  tokens     double precision NOT NULL,
  updated_at timestamptz NOT NULL              -- changes with every call, so never indexed
) WITH (fillfactor = 50);
