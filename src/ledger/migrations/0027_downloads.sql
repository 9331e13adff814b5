-- Purpose: hosts and proxies of downloads: how many requests to one host are in flight over all processes, how fast they start, when a host
-- asked for a pause, and what operators paused (decision 0060). Locks: none on existing tables. Breaking: no.

-- One row for each process that downloads. Its session holds the advisory lock with this number while the process lives.
CREATE TABLE millrace.download_gates (
  id        integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  opened_at timestamptz NOT NULL
);

-- A host that was called lately or is paused. `places` and `waiting` are in the row, so that an update of the row decides atomically.
CREATE TABLE millrace.download_hosts (
  host          text COLLATE "C" PRIMARY KEY CHECK (octet_length(host) BETWEEN 1 AND 300),
  places        integer[] NOT NULL DEFAULT '{}',  -- the gate of each request that may be in flight
  waiting       integer[] NOT NULL DEFAULT '{}',  -- the gates that want more places, in turn
  concurrency   integer CHECK (concurrency >= 1), -- fewer than configured, because the host asked for a pause; null: as configured
  strikes       integer NOT NULL DEFAULT 0 CHECK (strikes >= 0),
  successes     integer NOT NULL DEFAULT 0 CHECK (successes >= 0),  -- since `concurrency` last changed
  backoff_until timestamptz,
  next_start_at timestamptz,                      -- before it no further request may start; null without a rate
  is_paused     boolean NOT NULL DEFAULT false,
  requests      bigint NOT NULL DEFAULT 0,
  bytes         bigint NOT NULL DEFAULT 0,
  errors        bigint NOT NULL DEFAULT 0,
  used_at       timestamptz NOT NULL              -- changes with every request, so never indexed
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- What the processes learned about the addresses of a pool. The address has no credentials.
CREATE TABLE millrace.download_proxies (
  pool          text COLLATE "C" NOT NULL,
  address       text COLLATE "C" NOT NULL,
  score         double precision NOT NULL CHECK (score BETWEEN 0 AND 1),
  ejected_until timestamptz,
  successes     bigint NOT NULL,
  failures      bigint NOT NULL,
  updated_at    timestamptz NOT NULL,
  PRIMARY KEY (pool, address)
) WITH (fillfactor = 50);

-- Pools that an operator paused.
CREATE TABLE millrace.download_paused_pools (
  pool      text COLLATE "C" PRIMARY KEY CHECK (octet_length(pool) BETWEEN 1 AND 300),
  paused_at timestamptz NOT NULL
);
