-- Purpose: find the jobs that failed, newest first, without reading all jobs. Locks: SHARE on `events` (no writes) for the build
-- of the index, which reads the events there are. Breaking: no.
--
-- No index of `jobs` may mention its state: every change of state would rewrite every index entry of the row. Events never
-- change, so the index is theirs, and only failures are in it. The job's row says whether the event is still its newest.
CREATE INDEX failures_by_time ON millrace.events (org_id, at, job_seq) INCLUDE (n, to_state)
  WHERE to_state IN ('failed', 'dead_letter', 'retrying');  -- failure search
