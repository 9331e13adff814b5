-- Purpose: unique and debounced jobs: one job with a key at a time (decision 0053). Locks: none (a new table, new functions). Breaking: no.
-- An older program refuses the members `unique` and `debounce`.

-- The newest job that was submitted with a unique key. The row of that job says whether it still keeps others away, so no statement
-- that starts or ends jobs writes here. A row goes with its job.
CREATE TABLE millrace.unique_keys (
  org_id uuid NOT NULL,
  scope  text NOT NULL,                             -- the job type, and the project of jobs that have one
  key    text NOT NULL,
  seq    bigint NOT NULL,
  PRIMARY KEY (org_id, scope, key)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX unique_keys_by_job ON millrace.unique_keys (org_id, seq);  -- the pruner

-- What the functions below need of a job. The row itself would carry its payload along.
CREATE TYPE millrace.marked_job AS (
  org_id uuid, seq bigint, id uuid, state millrace.job_state, worker_id bigint, created_at timestamptz, completed_at timestamptz,
  run_at timestamptz, lifetime_deadline timestamptz, order_key bigint, priority smallint, queue text, job_type text);

-- Locks a job that waits to start, as the caller has seen it. False: it has moved on, or another transaction holds it.
--
-- A statement that serves many callers does not wait. A transaction may stay open for long, and a claim would wait for a job that it
-- holds. So it locks the token first, as a claim does; a claim skips a locked token. Every other loop skips locked jobs.
-- `only_kept`: the job does not change, so that several transactions can hold it.
CREATE FUNCTION millrace.hold_waiting(seen millrace.marked_job, is_shared boolean, only_kept boolean) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  has_token boolean := seen.state <> 'scheduled';
BEGIN
  IF is_shared THEN
    PERFORM FROM millrace.jobs j WHERE j.org_id = seen.org_id AND j.seq = seen.seq AND j.state = seen.state AND j.worker_id IS NULL
    FOR NO KEY UPDATE SKIP LOCKED;
    RETURN FOUND;
  END IF;
  IF NOT has_token AND only_kept THEN
    PERFORM FROM millrace.ready r WHERE r.queue = seen.queue AND r.job_type = seen.job_type AND r.priority = seen.priority
      AND r.order_key = seen.order_key AND r.seqs[r.taken + 1 :] = ARRAY[seen.seq] FOR SHARE;
    has_token := FOUND;
    PERFORM FROM millrace.limited t WHERE t.org_id = seen.org_id AND t.seq = seen.seq FOR SHARE;
    has_token := has_token OR FOUND;
  ELSIF NOT has_token THEN
    PERFORM FROM millrace.ready r WHERE r.queue = seen.queue AND r.job_type = seen.job_type AND r.priority = seen.priority
      AND r.order_key = seen.order_key AND r.seqs[r.taken + 1 :] = ARRAY[seen.seq] FOR UPDATE;
    has_token := FOUND;
    PERFORM FROM millrace.limited t WHERE t.org_id = seen.org_id AND t.seq = seen.seq FOR UPDATE;
    has_token := has_token OR FOUND;
  END IF;
  IF NOT has_token THEN
    RETURN false;
  ELSIF only_kept THEN
    PERFORM FROM millrace.jobs j WHERE j.org_id = seen.org_id AND j.seq = seen.seq AND j.state = seen.state AND j.worker_id IS NULL
      AND (j.queue, j.job_type, j.priority, j.order_key) = (seen.queue, seen.job_type, seen.priority, seen.order_key) FOR SHARE;
  ELSE
    PERFORM FROM millrace.jobs j WHERE j.org_id = seen.org_id AND j.seq = seen.seq AND j.state = seen.state AND j.worker_id IS NULL
      AND (j.queue, j.job_type, j.priority, j.order_key) = (seen.queue, seen.job_type, seen.priority, seen.order_key) FOR NO KEY UPDATE;
  END IF;
  RETURN FOUND;
END $$;

-- Cancels a job that waits to start and that the caller has locked.
CREATE FUNCTION millrace.replace_waiting(old millrace.marked_job, by_actor text, new_id uuid) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  record_no bigint := nextval('millrace.record_id');
BEGIN
  WITH cancelled AS (
    UPDATE millrace.jobs j SET state = 'cancelled', completed_at = millrace.clock(), updated_at = millrace.clock(), result = NULL,
      result_bytes = NULL, event_count = j.event_count + 1, record_ids = j.record_ids || record_no
    WHERE j.org_id = old.org_id AND j.seq = old.seq
    RETURNING j.org_id, j.seq, j.priority, j.job_type, j.event_count, j.lease_seq, j.attempts_started, j.round, j.has_dependents, j.joins_parent
  ), released AS (
    INSERT INTO millrace.releases (org_id, seq) SELECT org_id, seq FROM cancelled WHERE has_dependents OR joins_parent
  )
  INSERT INTO millrace.records
    (id, at, org_id, from_state, to_state, priority, job_type, reason, actor, seqs, ns, lease_seqs, attempts, rounds, details)
  SELECT record_no, millrace.clock(), org_id, old.state, 'cancelled', priority, job_type, 'replaced', by_actor, ARRAY[seq],
    ARRAY[event_count], ARRAY[lease_seq], ARRAY[attempts_started], ARRAY[round], ARRAY[json_build_object('replacedBy', new_id)]
  FROM cancelled;
  -- A token that another transaction holds is dropped by that transaction, or by the next one that takes it.
  DELETE FROM millrace.ready WHERE ctid = ANY (ARRAY(SELECT r.ctid FROM millrace.ready r WHERE old.state = 'scheduled'
    AND r.queue = old.queue AND r.job_type = old.job_type AND r.priority = old.priority AND r.order_key = old.order_key
    AND r.seqs[r.taken + 1 :] = ARRAY[old.seq] FOR UPDATE SKIP LOCKED));
  DELETE FROM millrace.limited WHERE ctid = ANY (ARRAY(SELECT t.ctid FROM millrace.limited t WHERE t.org_id = old.org_id AND t.seq = old.seq
    FOR UPDATE SKIP LOCKED));
  DELETE FROM millrace.timers WHERE ctid = ANY (ARRAY(SELECT t.ctid FROM millrace.timers t WHERE t.run_at = old.run_at AND t.seq = old.seq
    AND t.org_id = old.org_id FOR UPDATE SKIP LOCKED));
  DELETE FROM millrace.waiting w WHERE w.org_id = old.org_id AND w.seq = old.seq;
END $$;

-- Moves the start of a debounced job that the caller has locked. A job whose time has come keeps its place.
CREATE FUNCTION millrace.move_start(old millrace.marked_job, delay_ms double precision, max_ms double precision) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  start_at timestamptz := greatest(millrace.clock(),
    least(millrace.clock() + delay_ms * interval '1 ms', old.created_at + max_ms * interval '1 ms'));
BEGIN
  IF old.state NOT IN ('pending', 'delayed') OR start_at = old.run_at THEN RETURN; END IF;
  UPDATE millrace.jobs j SET run_at = start_at WHERE j.org_id = old.org_id AND j.seq = old.seq;
  IF old.state = 'pending' THEN RETURN; END IF;
  DELETE FROM millrace.timers WHERE ctid = ANY (ARRAY(SELECT t.ctid FROM millrace.timers t WHERE t.run_at = old.run_at AND t.seq = old.seq
    AND t.org_id = old.org_id FOR UPDATE SKIP LOCKED));
  INSERT INTO millrace.timers (run_at, dies_at, seq, org_id) VALUES (start_at, old.lifetime_deadline, old.seq, old.org_id);
END $$;

-- Decides about a new job with a unique key, and changes the job that already has the key. Volatile: each statement has a newer snapshot
-- than the locks that the function holds. The results:
--   new       no job is in the way; the new one now has the key
--   replaced  a waiting job, `unique_job`, was cancelled; the new one now has the key
--   updated   the waiting job got the new payload, and nothing is to be written
--   skipped   there is a job already, and nothing is to be written
--   held      another transaction holds the job, and nothing was changed
-- A job that is not written leaves its idempotency key unused.
CREATE FUNCTION millrace.take_unique(is_shared boolean, of_org uuid, of_scope text, rule json, new_seq bigint, new_id uuid, new_payload json,
  new_bytes text, by_actor text, idempotency text)
RETURNS TABLE (outcome text, unique_job uuid) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  of_key text := rule->>'key';
  until_started boolean := rule->>'until' = 'started';
  on_conflict text := rule->>'on_conflict';
  seen millrace.marked_job;
  waits boolean;
  is_in_the_way boolean;
  has_key boolean := false;
BEGIN
  IF of_key IS NULL THEN RETURN; END IF;
  FOR try IN 1 .. 100 LOOP
    SELECT j.org_id, j.seq, j.id, j.state, j.worker_id, j.created_at, j.completed_at, j.run_at, j.lifetime_deadline, j.order_key, j.priority,
      j.queue, j.job_type
    INTO seen FROM millrace.unique_keys u JOIN millrace.jobs j ON j.org_id = u.org_id AND j.seq = u.seq
    WHERE u.org_id = of_org AND u.scope = of_scope AND u.key = of_key;
    -- The next attempt has not begun. A leased job may already run: its start is written later (decision 0029).
    waits := FOUND AND (seen.state IN ('pending', 'delayed', 'retrying') OR seen.state = 'scheduled' AND seen.worker_id IS NULL);
    is_in_the_way := CASE WHEN until_started THEN waits ELSE seen.seq IS NOT NULL AND seen.completed_at IS NULL END;
    outcome := NULL;
    unique_job := seen.id;
    IF is_in_the_way AND (on_conflict = 'skip' OR NOT waits) THEN
      -- What the caller's transaction changed must be visible to the job when it starts. So it cannot start before the commit.
      IF is_shared OR NOT until_started OR millrace.hold_waiting(seen, false, true) THEN
        outcome := 'skipped';
      END IF;
    ELSIF NOT has_key THEN
      -- The order of the submissions with this key, until the transaction ends.
      PERFORM FROM millrace.unique_keys u WHERE u.org_id = of_org AND u.scope = of_scope AND u.key = of_key FOR UPDATE;
      has_key := FOUND;
      IF NOT has_key THEN
        INSERT INTO millrace.unique_keys (org_id, scope, key, seq) VALUES (of_org, of_scope, of_key, new_seq) ON CONFLICT DO NOTHING;
        IF FOUND THEN outcome := 'new'; END IF;
      END IF;
    ELSIF NOT is_in_the_way THEN
      outcome := 'new';
    ELSIF NOT millrace.hold_waiting(seen, is_shared, false) THEN
      IF is_shared THEN outcome := 'held'; END IF;
    ELSIF on_conflict = 'replace' THEN
      PERFORM millrace.replace_waiting(seen, by_actor, new_id);
      outcome := 'replaced';
    ELSE
      UPDATE millrace.jobs j SET payload = new_payload, payload_bytes = decode(new_bytes, 'base64') WHERE j.org_id = seen.org_id AND j.seq = seen.seq;
      IF on_conflict = 'debounce' THEN
        PERFORM millrace.move_start(seen, (rule->>'delay_ms')::float8, (rule->>'max_ms')::float8);
      END IF;
      outcome := 'updated';
    END IF;
    CONTINUE WHEN outcome IS NULL;
    IF outcome IN ('new', 'replaced') THEN
      UPDATE millrace.unique_keys u SET seq = new_seq WHERE u.org_id = of_org AND u.scope = of_scope AND u.key = of_key AND u.seq <> new_seq;
    ELSIF idempotency IS NOT NULL THEN
      DELETE FROM millrace.idempotency_keys k WHERE k.org_id = of_org AND k.scope = of_scope AND k.key = idempotency AND k.job_id = new_id;
    END IF;
    RETURN NEXT;
    RETURN;
  END LOOP;
  RAISE lock_not_available USING MESSAGE = 'the job with this unique key keeps changing';
END $$;

-- A job may be cancelled because another one replaced it.
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
      WHEN 'dead_letter' THEN reason = 'lifetime_exceeded'
      WHEN 'cancelled' THEN reason IN ('cancelled', 'replaced')
      ELSE false END
    WHEN 'running' THEN CASE to_state
      WHEN 'completed' THEN reason = 'succeeded'
      WHEN 'retrying' THEN reason IN ('temporary_failure', 'timed_out', 'system_failure', 'worker_lost', 'released', 'postponed')
      WHEN 'failed' THEN reason IN ('permanent_failure', 'child_failed', 'worker_lost', 'temporary_failure', 'timed_out', 'system_failure')
      WHEN 'dead_letter' THEN reason IN ('attempts_exhausted', 'lifetime_exceeded')
      WHEN 'cancelled' THEN reason = 'cancelled'
      ELSE false END
    WHEN 'delayed' THEN CASE to_state
      WHEN 'scheduled' THEN reason = 'delay_elapsed'
      WHEN 'dead_letter' THEN reason = 'lifetime_exceeded'
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
