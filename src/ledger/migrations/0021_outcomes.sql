-- Purpose: let a handler postpone its job without using up an attempt, and let a job fail with a child. Each postponement raises
-- `max_attempts` by one, so its bound of 100 goes; submissions are still checked by the program. Locks: `jobs`, for a moment (the constraint
-- is not checked for existing rows, which met a stricter one). Breaking: no. A worker of an older program lowers the limit of a postponed
-- job to 100 when it shuts down cleanly, and completes parents whose children failed.
CREATE OR REPLACE FUNCTION millrace.is_transition(from_state millrace.job_state, to_state millrace.job_state, reason text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$ BEGIN
  RETURN CASE from_state
    WHEN 'pending' THEN CASE to_state
      WHEN 'scheduled' THEN reason IN ('submitted', 'dependencies_met')
      WHEN 'delayed' THEN reason IN ('submitted', 'dependencies_met')
      WHEN 'failed' THEN reason IN ('dependency_failed', 'chain_stopped')
      WHEN 'dead_letter' THEN reason IN ('dependency_dead_letter', 'chain_stopped', 'lifetime_exceeded')
      WHEN 'cancelled' THEN reason IN ('dependency_cancelled', 'chain_stopped', 'cancelled')
      ELSE false END
    WHEN 'scheduled' THEN CASE to_state
      WHEN 'running' THEN reason = 'started'
      WHEN 'dead_letter' THEN reason = 'lifetime_exceeded'
      WHEN 'cancelled' THEN reason = 'cancelled'
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
      WHEN 'cancelled' THEN reason = 'cancelled'
      ELSE false END
    WHEN 'retrying' THEN CASE to_state
      WHEN 'scheduled' THEN reason IN ('backoff_elapsed', 'released', 'worker_lost')
      WHEN 'failed' THEN reason = 'retry_dropped'
      WHEN 'dead_letter' THEN reason = 'lifetime_exceeded'
      WHEN 'cancelled' THEN reason = 'cancelled'
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

ALTER TABLE millrace.jobs
  ADD joined_by bigint,  -- the lease of the parent's attempt that fails unless this job completes
  DROP CONSTRAINT impossible_rows_are_refused,
  ADD CONSTRAINT impossible_rows_are_refused CHECK (
    (completed_at IS NOT NULL) = (state >= 'completed')                              -- only final jobs have an end
    AND (worker_id IS NULL OR state = 'running' OR state = 'scheduled')              -- only claimed jobs have a worker
    AND (state <> 'running' OR worker_id IS NOT NULL OR is_held)                     -- running jobs are leased or held
    AND (attempts_started = 0 OR started_at IS NOT NULL) AND attempts_started >= 0
    AND max_attempts >= 1 AND priority >= 0 AND priority <= 4) NOT VALID;
