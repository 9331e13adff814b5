-- Purpose: counts and latencies that cost the same however many jobs there are. Locks: none (new tables). Breaking: no.
--
-- Every transition is in `records`. A projector reads them once, in the order in which nothing can still appear before
-- what was read (by transaction, below the oldest one that runs), and adds them up here. A reader takes these sums and what
-- lies in `records` beyond the projector's position, in one snapshot: the two never overlap and never leave a gap.

-- How far each projector has read: every record of a transaction below `txid` is in its sums, no other is. Whoever holds the
-- row's lock is the one projector at work.
CREATE TABLE millrace.projections (
  name text PRIMARY KEY,
  txid xid8 NOT NULL
) WITH (fillfactor = 50);
INSERT INTO millrace.projections (name, txid) VALUES ('rollups', '0');

-- What happened, by second, minute, hour and day. A range back from now is read as seconds up to the next full minute, minutes
-- up to the next full hour and so on: some two hundred rows a type and priority, for an hour as for a year.
CREATE TABLE millrace.rollups (
  org_id      uuid NOT NULL,
  width       integer NOT NULL CHECK (width IN (1, 60, 3600, 86400)),   -- seconds
  started_at  timestamptz NOT NULL,
  job_type    text NOT NULL,
  priority    smallint NOT NULL,
  submitted   bigint NOT NULL,
  completed   bigint NOT NULL,
  failed      bigint NOT NULL,
  dead_letter bigint NOT NULL,
  cancelled   bigint NOT NULL,
  retried     bigint NOT NULL,
  PRIMARY KEY (org_id, width, started_at, job_type, priority)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX rollups_by_age ON millrace.rollups (width, started_at);             -- what is old goes

-- How long attempts waited and ran: a histogram whose buckets grow by 4 %, so a percentile is off by 2 % at most.
CREATE TABLE millrace.rollup_latencies (
  org_id     uuid NOT NULL,
  width      integer NOT NULL,
  started_at timestamptz NOT NULL,
  kind       text NOT NULL CHECK (kind IN ('queue', 'execution')),
  bucket     smallint NOT NULL,
  attempts   bigint NOT NULL,
  max_ms     double precision NOT NULL,
  PRIMARY KEY (org_id, width, started_at, kind, bucket)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX rollup_latencies_by_age ON millrace.rollup_latencies (width, started_at);

-- Jobs that have not ended, by state: used where there are too many tokens to count.
CREATE TABLE millrace.live_totals (
  org_id uuid NOT NULL,
  state  millrace.job_state NOT NULL,
  jobs   bigint NOT NULL,
  PRIMARY KEY (org_id, state)
) WITH (fillfactor = 50);

-- Between which numbers the jobs lie that were created in a minute or a day. `created_at` is when the transaction began, so
-- it does not quite follow `seq`; with this a search by time of creation needs no index on it.
CREATE TABLE millrace.seq_spans (
  org_id     uuid NOT NULL,
  width      integer NOT NULL CHECK (width IN (60, 86400)),
  started_at timestamptz NOT NULL,
  min_seq    bigint NOT NULL,
  max_seq    bigint NOT NULL,
  PRIMARY KEY (org_id, width, started_at)
) WITH (fillfactor = 50);

-- Token tables are counted by org; delayed and retried jobs alone pay for this entry.
CREATE INDEX timers_by_org ON millrace.timers (org_id, seq);
