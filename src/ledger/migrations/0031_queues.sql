-- Purpose: queues as governed resources (decision 0063): seven queues in every ledger, and the settings of a queue. Locks: `queues`, for a
-- moment. Breaking: no. Workers of an earlier version know no caps and rates of queues and exceed them until they are replaced.

ALTER TABLE millrace.queues
  ADD concurrency    integer CHECK (concurrency >= 1),               -- its jobs that run at the same time over all workers; null: no cap
  ADD rate           double precision CHECK (rate > 0),              -- its jobs that start a second over all workers; null: no rate
  ADD depth_cap      integer CHECK (depth_cap >= 1),                 -- its jobs that may wait; null: no cap
  ADD slo_seconds    double precision CHECK (slo_seconds > 0),       -- how long its jobs should wait at most; null: no target
  ADD reserved_share double precision CHECK (reserved_share >= 0 AND reserved_share <= 1),  -- of the slots of each worker; null: none
  ADD draining_at    timestamptz;                                    -- set: the queue accepts no new job

-- `q:deadletter` shows the dead letters. No job waits there, so no worker claims from it.
INSERT INTO millrace.queues (name)
  SELECT unnest(ARRAY['q:critical', 'q:default', 'q:notifications', 'q:planning', 'q:exports', 'q:maintenance', 'q:deadletter'])
  ON CONFLICT DO NOTHING;
UPDATE millrace.queues q SET slo_seconds = d.slo_seconds, depth_cap = d.depth_cap, reserved_share = d.reserved_share
FROM (VALUES ('q:critical', 5, 1000, NULL), ('q:default', 60, NULL, 0.1), ('q:notifications', 30, NULL, NULL), ('q:planning', 600, NULL, NULL),
  ('q:exports', 600, NULL, NULL), ('q:maintenance', 3600, NULL, NULL)) AS d(name, slo_seconds, depth_cap, reserved_share)
WHERE q.name = d.name;

-- One row for each queue that was ever configured. A claim from a queue with a cap or a rate locks its row until it commits, so that one
-- claim at a time counts and takes; another claim does not wait for it, but leaves the queue out.
CREATE TABLE millrace.queue_rooms (
  queue   text PRIMARY KEY,
  next_at timestamptz NOT NULL DEFAULT 'epoch'      -- with a rate: when the next job may start, if it kept to equal intervals
) WITH (fillfactor = 50);

-- How many attempts started by minute, and how many of them had waited longer than the target of their queue. Of a statement that started
-- many jobs, a part is counted.
CREATE TABLE millrace.queue_starts (
  queue  text NOT NULL,
  org_id uuid NOT NULL,
  minute timestamptz NOT NULL,
  starts bigint NOT NULL,
  late   bigint NOT NULL,
  PRIMARY KEY (queue, org_id, minute)
) WITH (fillfactor = 70);
CREATE INDEX queue_starts_by_time ON millrace.queue_starts (minute);  -- the sums of all orgs; rows that are too old

-- The newest record of the history that was counted. The process that holds the lock of the row counts.
CREATE TABLE millrace.queue_starts_position (
  is_only   boolean PRIMARY KEY DEFAULT true CHECK (is_only),
  record_id bigint NOT NULL
);
INSERT INTO millrace.queue_starts_position (record_id) VALUES (0);
