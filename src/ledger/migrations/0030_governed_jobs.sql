-- Purpose: governed jobs (decision 0062): the transition to poison, the count behind it, orgs that are being deleted, and a category that is
-- one of five. Locks: `jobs`, for a moment (a nullable column is added); `schedules`, for the rows that have another category. Breaking:
-- a submission or a schedule cannot have another category than the five, and `millrace.submit` accepts none.

-- Manual retries that followed a permanent failure. Null counts as none, so that other jobs do not store it.
ALTER TABLE millrace.jobs ADD permanent_failures smallint CHECK (permanent_failures >= 1);

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
      WHEN 'dead_letter' THEN reason IN ('attempts_exhausted', 'lifetime_exceeded', 'poison')
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

-- Workers read them every second.
CREATE INDEX orgs_being_deleted ON millrace.orgs (id) WHERE deleting_at IS NOT NULL;

-- Earlier versions stored any label. It had no effect, so the schedules go on without it.
UPDATE millrace.schedules SET submission = (submission::jsonb - 'category')::json
WHERE submission->>'category' NOT IN ('notification', 'audit_enrichment', 'planning', 'import_export', 'maintenance');

-- Governed payloads are inspected and their keys derived by the library and the HTTP API. The function does neither, so it refuses them.
DO $$
DECLARE
  checked CONSTANT text := $text$  IF submit.category !~ '^[a-z0-9:_.-]{1,100}$' THEN
    issues := issues || millrace.issue('category', 'INVALID_VALUE', 'must be 1 to 100 characters from a-z, 0-9 and : _ . -');
  END IF;$text$;
  refused CONSTANT text := $text$  IF submit.category IS NOT NULL THEN
    issues := issues || millrace.issue('category', 'NOT_SUPPORTED', 'must be null: submit jobs with a category through the library or the HTTP API, which check them');
  END IF;$text$;
  definition text;
BEGIN
  SELECT pg_get_functiondef(p.oid) INTO STRICT definition FROM pg_proc p
  WHERE p.pronamespace = 'millrace'::regnamespace AND p.proname = 'submit';
  IF strpos(definition, checked) = 0 THEN RAISE EXCEPTION 'millrace.submit is not the function that this migration knows'; END IF;
  EXECUTE replace(definition, checked, refused);
END $$;
