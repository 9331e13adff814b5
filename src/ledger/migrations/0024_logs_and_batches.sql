-- Purpose: the log lines of handlers, and batches of any size that can be counted and awaited (decision 0055). Locks: none (new tables).
-- Breaking: no. While a process of an earlier version prunes, the lines of the jobs that it removes stay behind.

-- One row for each line. The lease names the attempt, and `n` counts its lines, so a write that is repeated stores no line twice.
CREATE TABLE millrace.job_logs (
  org_id    uuid NOT NULL,
  seq       bigint NOT NULL,
  lease_seq bigint NOT NULL,
  n         integer NOT NULL CHECK (n >= 1),
  attempt   smallint NOT NULL CHECK (attempt >= 1),
  level     text NOT NULL CHECK (level IN ('debug', 'info', 'warn', 'error')),
  at        timestamptz NOT NULL,                 -- when the handler wrote the line
  message   text NOT NULL,
  fields    json,
  PRIMARY KEY (org_id, seq, lease_seq, n)         -- the lines of a job, oldest first; also the pruner
) WITH (autovacuum_vacuum_scale_factor = 0.05);

CREATE TABLE millrace.batches (
  id           uuid PRIMARY KEY,
  org_id       uuid NOT NULL,
  created_at   timestamptz NOT NULL,
  submitted_at timestamptz                        -- null while jobs are still added
);

-- A row for each piece of a batch, written by the transaction that writes its jobs. The jobs themselves do not name their batch, so a
-- submission outside a batch costs the same as before.
CREATE TABLE millrace.batch_parts (
  batch_id     uuid NOT NULL REFERENCES millrace.batches ON DELETE CASCADE,
  part         integer NOT NULL CHECK (part >= 0),
  jobs         integer NOT NULL CHECK (jobs >= 1),
  is_completed boolean NOT NULL DEFAULT false,    -- all its jobs completed, which is for ever: they need not be read again
  fingerprint  text NOT NULL,                     -- of the submissions, to recognise a piece that is submitted again
  seqs         int8multirange NOT NULL,           -- one statement numbers its jobs in sequence, so these are few ranges
  PRIMARY KEY (batch_id, part)
);
