-- Purpose: schedules that can be paused and belong to a project, a rule for runs that overlap, and the planned time of a job (decision
-- 0056). Locks: `schedules` while it is rewritten, which is small; `jobs` for a moment. Breaking: no. A process of an earlier version fires
-- paused schedules and ignores the rule for overlaps. Pause the first schedule when all processes have this version.

ALTER TABLE millrace.jobs ADD COLUMN planned_at timestamptz;           -- the scheduled run that submitted it; null: none did

ALTER TABLE millrace.schedules
  ADD overlap         text NOT NULL DEFAULT 'queue' CHECK (overlap IN ('skip', 'queue', 'replace')),
  ADD paused_at       timestamptz,                                     -- null: it is not paused
  ADD last_job_id     uuid,
  ADD last_skipped_at timestamptz,                                     -- the newest run that did not happen because an earlier job had not ended
  ADD skipped         bigint NOT NULL DEFAULT 0 CHECK (skipped >= 0),  -- how many such runs there were
  ADD updated_at      timestamptz,
  ADD updated_by      text,
  ADD reason          text,                                            -- of the last change
  ADD project_id      uuid GENERATED ALWAYS AS ((submission->>'projectId')::uuid) STORED,
  ADD size            integer GENERATED ALWAYS AS (octet_length(submission #>> '{}')) STORED;  -- bounds a page of schedules

DROP INDEX millrace.schedules_by_time;
CREATE INDEX schedules_by_time ON millrace.schedules (next_at) WHERE paused_at IS NULL;  -- the scheduler

-- The jobs of a schedule that may not have ended. The scheduler removes those that have, so the table stays small without an index on jobs.
CREATE TABLE millrace.schedule_jobs (
  org_id uuid NOT NULL,
  key    text NOT NULL,
  seq    bigint NOT NULL,
  PRIMARY KEY (org_id, key, seq),
  FOREIGN KEY (org_id, key) REFERENCES millrace.schedules (org_id, key) ON DELETE CASCADE
);
