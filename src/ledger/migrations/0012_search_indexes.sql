-- Purpose: search jobs through ordinary indexes instead of postings (decision 0031). Locks: `jobs` and `records` cannot be written while
-- their indexes are built (about 15 s for a million jobs with three million records). Breaking: yes. A process of an earlier version
-- can no longer search or add up, because `postings` is gone. Stop every such process before the upgrade.

-- These columns change only when a user changes a job that has not started. So starting and finishing a job still touch no
-- index. The priority comes first because it has five values: a search by type alone looks into five ranges.
CREATE INDEX jobs_by_type ON millrace.jobs (org_id, priority, job_type, seq);

-- A record covers all jobs that one statement moved, so these cost an entry per statement and not per job.
CREATE INDEX records_by_time ON millrace.records (org_id, at);            -- jobs by their last change
CREATE INDEX records_of_bad_ends ON millrace.records (org_id, to_state)   -- jobs in a rare final state
  WHERE to_state IN ('failed', 'dead_letter', 'cancelled');

-- Tags stay with the projector: an entry for each tag of each job would be written inside the submit. A row names many jobs that have
-- one tag. The reader checks every job, so a row may name a job that has lost the tag.
CREATE TABLE millrace.tagged_jobs (
  org_id   uuid NOT NULL,
  tag      text COLLATE "C" NOT NULL,   -- name=value
  last_seq bigint NOT NULL,             -- when no job up to this one is left, the row goes
  seqs     bigint[] NOT NULL
);
-- Compressing the numbers costs the projector more than writing them.
ALTER TABLE millrace.tagged_jobs ALTER COLUMN seqs SET STORAGE EXTERNAL;
INSERT INTO millrace.tagged_jobs (org_id, tag, last_seq, seqs)
  SELECT org_id, substr(term, 5), last_seq, seqs FROM millrace.postings WHERE term LIKE 'tag:%';
CREATE INDEX tagged_jobs_by_tag ON millrace.tagged_jobs (org_id, tag, last_seq);

-- When a user changes the tags of a job, no event tells the projector.
CREATE FUNCTION millrace.add_tagged_job() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO millrace.tagged_jobs (org_id, tag, last_seq, seqs)
  SELECT NEW.org_id, t.key || '=' || t.value, NEW.seq, ARRAY[NEW.seq] FROM jsonb_each_text(NEW.tags) t;
  RETURN NULL;
END $$;
CREATE TRIGGER jobs_changed_tags AFTER UPDATE OF tags ON millrace.jobs FOR EACH ROW
  WHEN (NEW.tags IS DISTINCT FROM OLD.tags) EXECUTE FUNCTION millrace.add_tagged_job();

DROP TRIGGER jobs_post_changed ON millrace.jobs;
DROP FUNCTION millrace.post_changed_job();
DROP TABLE millrace.postings;

-- The lowest job that changed in the minute or day. A span may be of changes alone, and then has no job that was created in it.
ALTER TABLE millrace.seq_spans
  ADD COLUMN changed_seq bigint,        -- null: from before this column, so it may be any job
  ALTER COLUMN min_seq DROP NOT NULL, ALTER COLUMN max_seq DROP NOT NULL;
