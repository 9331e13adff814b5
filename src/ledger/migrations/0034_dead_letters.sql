-- Purpose: the dead letter as a workplace: an entry for each job that died, and operations on many jobs. Locks: `jobs`, for a moment (two
-- nullable columns are added). The entries of jobs that are dead already are written with one pass over `jobs`. Breaking: no.

-- Groups failures that have the same cause. Two messages that differ only in quoted text, or in words with a digit (numbers, ids, times,
-- addresses), have the same fingerprint.
CREATE FUNCTION millrace.failure_fingerprint(job_type text, failure json) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT left(encode(sha256(convert_to(concat_ws(E'\x1f', job_type, failure->>'category', failure->>'code',
    regexp_replace(regexp_replace(regexp_replace(lower(left(coalesce(failure->>'message', ''), 1000)),
      '"[^"]*"|`[^`]*`|“[^”]*”|«[^»]*»|(?<![[:alnum:]])''[^'']*''', '''''', 'g'),
      '[[:alnum:]_.:/@%+-]*[0-9][[:alnum:]_.:/@%+-]*', '#', 'g'), '\s+', ' ', 'g')), 'UTF8')), 'hex'), 32)
$$;

-- One entry for each job that died, written by the statement that ends the job. It repeats what an operator needs, because it may outlive
-- the job. An open entry keeps its job, whose payload a replay needs.
CREATE TABLE millrace.dead_letters (
  org_id       uuid NOT NULL,
  seq          bigint NOT NULL,
  job_id       uuid NOT NULL,
  project_id   uuid,
  job_type     text NOT NULL,
  queue        text NOT NULL,                       -- the origin queue
  category     text,
  failed_at    timestamptz NOT NULL,                -- when it died last
  attempts     integer NOT NULL,
  reason       text NOT NULL,                       -- of the transition to dead_letter
  code         text NOT NULL,
  error        json NOT NULL,
  fingerprint  text NOT NULL,
  status       text NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'replayed', 'discarded', 'fixed_forward')),
  resolved_at  timestamptz,
  resolved_by  text,
  undo_until   timestamptz,                         -- of a discard
  operation_id uuid,                                -- the operation that discarded it
  replaced_by  uuid,                                -- the job that does its work, once fixed forward
  is_alerted   boolean NOT NULL DEFAULT false,
  PRIMARY KEY (org_id, seq),                        -- the writers; operations
  CHECK ((status = 'open') = (resolved_at IS NULL)),
  CHECK ((status = 'discarded') = (undo_until IS NOT NULL)),
  CHECK ((status = 'fixed_forward') = (replaced_by IS NOT NULL))
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);
CREATE UNIQUE INDEX dead_letters_by_job ON millrace.dead_letters (job_id);                                  -- get, act
CREATE INDEX dead_letters_by_time ON millrace.dead_letters (org_id, failed_at, seq);                        -- lists of every status
CREATE INDEX dead_letters_by_status ON millrace.dead_letters (org_id, status, failed_at, seq);              -- lists of one status
CREATE INDEX dead_letters_by_group ON millrace.dead_letters (org_id, status, fingerprint, failed_at, seq);  -- groups, without the table
CREATE INDEX dead_letters_to_alert ON millrace.dead_letters (failed_at) WHERE NOT is_alerted;
CREATE INDEX dead_letters_by_age ON millrace.dead_letters (failed_at);                                      -- the pruner

ALTER TABLE millrace.jobs
  ADD replaces_id    uuid,                          -- the dead job whose work it does
  ADD replaced_by_id uuid;                          -- the job that does its work, once fixed forward

INSERT INTO millrace.dead_letters (org_id, seq, job_id, project_id, job_type, queue, category, failed_at, attempts, reason, code, error,
  fingerprint, is_alerted)
SELECT j.org_id, j.seq, j.id, j.project_id, j.job_type, j.queue, j.category, j.completed_at, j.attempts_started, 'attempts_exhausted',
  coalesce(j.last_error->>'code', 'UNKNOWN'), coalesce(j.last_error, '{"category":"SYSTEM","code":"UNKNOWN","message":"the cause is not known"}'),
  millrace.failure_fingerprint(j.job_type, j.last_error), true
FROM millrace.jobs j WHERE j.state = 'dead_letter'
  AND j.job_type NOT LIKE 'forgerun.%' AND j.job_type NOT LIKE 'fetchbox.%' AND j.job_type <> 'webhook.deliver';

-- A change to many jobs, made step by step. A step is a transaction that locks this row, so one process at a time makes it.
CREATE TABLE millrace.operations (
  id                 uuid PRIMARY KEY,
  org_id             uuid NOT NULL,
  project_id         uuid,                          -- of the key that asked; the operation reaches no other project
  action             text NOT NULL CHECK (action IN ('replay', 'discard', 'fix_forward', 'retry', 'cancel')),
  state              text NOT NULL CHECK (state IN ('canary', 'running', 'paused', 'halted', 'completed', 'stopped')),
  filter             json,                          -- null: the jobs were named
  patch              json,
  payload            json,
  canary             integer NOT NULL CHECK (canary >= 0),
  rate               double precision NOT NULL CHECK (rate > 0),
  halt_failure_rate  double precision CHECK (halt_failure_rate BETWEEN 0 AND 1),
  halt_after         integer CHECK (halt_after >= 1),
  reason             text,
  actor              text NOT NULL,
  request_id         text,
  created_at         timestamptz NOT NULL,
  finished_at        timestamptz,
  halted_because     text,
  halts              integer NOT NULL DEFAULT 0,
  cursor_seq         bigint NOT NULL DEFAULT 0,     -- the last entry that the list of its jobs has seen
  cursor             text,                          -- the same, for a search of jobs
  is_listed          boolean NOT NULL,              -- the list of its jobs is complete
  matching           integer NOT NULL DEFAULT 0,
  sent               integer NOT NULL DEFAULT 0,    -- jobs that it has acted on
  succeeded          integer NOT NULL DEFAULT 0,
  failed             integer NOT NULL DEFAULT 0,
  skipped            integer NOT NULL DEFAULT 0,
  undone             integer NOT NULL DEFAULT 0,
  counted_succeeded  integer NOT NULL DEFAULT 0,    -- outcomes before the last resume, which do not count for the next halt
  counted_failed     integer NOT NULL DEFAULT 0,
  paid_until         timestamptz NOT NULL,          -- what the rate allows to send has been sent up to this time
  next_step_at       timestamptz NOT NULL,
  swept_n            integer NOT NULL DEFAULT 0,    -- where the look at sent jobs goes on
  undo_asked_at      timestamptz,
  undone_at          timestamptz,
  CHECK ((halt_failure_rate IS NULL) = (halt_after IS NULL)),
  CHECK ((state = 'halted') <= (halted_because IS NOT NULL)),
  CHECK (state <> 'completed' OR finished_at IS NOT NULL)
) WITH (fillfactor = 50);
CREATE INDEX operations_by_time ON millrace.operations (org_id, created_at, id);                             -- lists
CREATE INDEX operations_to_step ON millrace.operations (next_step_at)
  WHERE finished_at IS NULL OR (undo_asked_at IS NOT NULL AND undone_at IS NULL);                           -- the runner

CREATE TABLE millrace.operation_items (
  operation_id uuid NOT NULL REFERENCES millrace.operations (id) ON DELETE CASCADE,
  n            integer NOT NULL,
  job_id       text NOT NULL,                       -- as the request named it
  result       text NOT NULL DEFAULT 'waiting' CHECK (result IN ('waiting', 'sent', 'succeeded', 'failed', 'skipped')),
  from_state   text,                                -- of the job, before the operation acted on it
  new_job_id   uuid,
  error        text,
  sent_at      timestamptz,
  ended_at     timestamptz,
  undone_at    timestamptz,
  PRIMARY KEY (operation_id, n),
  UNIQUE (operation_id, job_id),
  CHECK ((result IN ('waiting', 'sent')) = (ended_at IS NULL))
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX operation_items_by_result ON millrace.operation_items (operation_id, result, n);                -- the runner; lists of one result

-- As src/core/transitions.ts has it. New: `poison`, and `retry_undone`, which takes back a retry that has not started.
CREATE OR REPLACE FUNCTION millrace.is_transition(from_state millrace.job_state, to_state millrace.job_state, reason text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$ BEGIN
  RETURN CASE from_state
    WHEN 'pending' THEN CASE to_state
      WHEN 'scheduled' THEN reason IN ('submitted', 'dependencies_met')
      WHEN 'delayed' THEN reason IN ('submitted', 'dependencies_met')
      WHEN 'failed' THEN reason IN ('dependency_failed', 'chain_stopped')
      WHEN 'dead_letter' THEN reason IN ('dependency_dead_letter', 'chain_stopped', 'lifetime_exceeded')
      WHEN 'cancelled' THEN reason IN ('dependency_cancelled', 'chain_stopped', 'cancelled', 'replaced')
      ELSE false END
    WHEN 'scheduled' THEN CASE to_state
      WHEN 'running' THEN reason = 'started'
      WHEN 'failed' THEN reason = 'retry_undone'
      WHEN 'dead_letter' THEN reason IN ('lifetime_exceeded', 'retry_undone')
      WHEN 'cancelled' THEN reason IN ('cancelled', 'replaced')
      ELSE false END
    WHEN 'running' THEN CASE to_state
      WHEN 'completed' THEN reason = 'succeeded'
      WHEN 'retrying' THEN reason IN ('temporary_failure', 'timed_out', 'system_failure', 'worker_lost', 'released', 'postponed')
      WHEN 'failed' THEN reason IN ('permanent_failure', 'child_failed', 'worker_lost', 'temporary_failure', 'timed_out', 'system_failure')
      WHEN 'dead_letter' THEN reason IN ('attempts_exhausted', 'lifetime_exceeded', 'poison')
      WHEN 'cancelled' THEN reason = 'cancelled'
      ELSE false END
    WHEN 'delayed' THEN CASE to_state
      WHEN 'scheduled' THEN reason = 'delay_elapsed'
      WHEN 'failed' THEN reason = 'retry_undone'
      WHEN 'dead_letter' THEN reason IN ('lifetime_exceeded', 'retry_undone')
      WHEN 'cancelled' THEN reason IN ('cancelled', 'replaced')
      ELSE false END
    WHEN 'retrying' THEN CASE to_state
      WHEN 'scheduled' THEN reason IN ('backoff_elapsed', 'released', 'worker_lost')
      WHEN 'failed' THEN reason = 'retry_dropped'
      WHEN 'dead_letter' THEN reason = 'lifetime_exceeded'
      WHEN 'cancelled' THEN reason IN ('cancelled', 'replaced')
      ELSE false END
    WHEN 'failed' THEN CASE to_state
      WHEN 'scheduled' THEN reason = 'manual_retry'
      WHEN 'delayed' THEN reason = 'manual_retry'
      ELSE false END
    WHEN 'dead_letter' THEN CASE to_state
      WHEN 'scheduled' THEN reason = 'manual_retry'
      WHEN 'delayed' THEN reason = 'manual_retry'
      ELSE false END
    ELSE from_state IS NULL AND to_state = 'pending' AND reason = 'submitted' END;
END $$;
