-- Purpose: submissions no longer lock the jobs they depend on, and the releaser pages through the dependents of a job, one org after
-- the other. Locks: `releases` exclusively for a moment; `dependencies` cannot be written while an index of it is built. Breaking: no.

-- A release asks the releaser to look at a job. What the look does follows from the job's state: the dependents of a job that ended
-- are moved; a pending job, or one that waits for its children, is looked at itself.
ALTER TABLE millrace.releases
  ADD COLUMN is_new    boolean NOT NULL DEFAULT false,                 -- its job was just submitted, and its dependencies are not marked yet
  ADD COLUMN after_seq bigint NOT NULL DEFAULT 0,                      -- the dependents up to this one have been looked at
  ADD COLUMN failures  integer NOT NULL DEFAULT 0,                     -- how often it was put off, which decides how long it waits
  ADD COLUMN due_at    timestamptz NOT NULL DEFAULT '-infinity';
ALTER TABLE millrace.releases SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX releases_in_turn ON millrace.releases (is_new, org_id, due_at, id);   -- the releaser: some of each org
CREATE INDEX releases_by_job ON millrace.releases (org_id, seq);                   -- the pruner: a job that is still to be looked at stays

DROP INDEX millrace.dependencies_by_target;
CREATE INDEX dependencies_by_target ON millrace.dependencies (org_id, depends_on_seq, job_seq);  -- who waits for this job, in pages

-- How many dependents a job has. The releaser counts a dependent when it marks its dependencies; `counted_to` is the newest one counted.
CREATE TABLE millrace.dependent_counts (
  org_id     uuid NOT NULL,
  seq        bigint NOT NULL,
  dependents integer NOT NULL,
  counted_to bigint NOT NULL,
  PRIMARY KEY (org_id, seq)
) WITH (fillfactor = 70);
