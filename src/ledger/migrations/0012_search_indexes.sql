-- Purpose: search jobs through ordinary indexes instead of postings (decision 0031). Locks: `records` cannot be written while its
-- indexes are built (about 10 s for three million records). Breaking: yes. A process of an earlier version
-- still submits and runs jobs, but its searches and its projector fail, because `postings` is gone. Stop it soon.

-- A record covers all jobs of one type and priority that one statement moved. So these cost an entry per statement and not per job.
-- The same index on `jobs` slowed batches of submits down by 9 to 20 %. A record of new jobs has no `ns`.
CREATE INDEX records_of_births ON millrace.records (org_id, priority, job_type) WHERE ns IS NULL;
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

-- Jobs whose type or priority a user changed. Their record of birth still has the old ones.
CREATE TABLE millrace.changed_jobs (
  org_id   uuid NOT NULL,
  priority smallint NOT NULL,
  job_type text NOT NULL,
  seq      bigint NOT NULL,
  PRIMARY KEY (org_id, priority, job_type, seq)
);
INSERT INTO millrace.changed_jobs (org_id, priority, job_type, seq)
  SELECT DISTINCT j.org_id, j.priority, j.job_type, j.seq
  FROM millrace.postings p CROSS JOIN LATERAL unnest(p.seqs) AS u(seq) JOIN millrace.jobs j ON j.org_id = p.org_id AND j.seq = u.seq
  WHERE p.jobs = 1 AND (p.term = 'type:' || j.job_type OR p.term = 'priority:' || j.priority);

-- A change by a user makes no event that could tell the projector.
CREATE FUNCTION millrace.note_changed_job() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO millrace.changed_jobs (org_id, priority, job_type, seq) VALUES (NEW.org_id, NEW.priority, NEW.job_type, NEW.seq)
  ON CONFLICT DO NOTHING;
  INSERT INTO millrace.tagged_jobs (org_id, tag, last_seq, seqs)
  SELECT NEW.org_id, t.key || '=' || t.value, NEW.seq, ARRAY[NEW.seq] FROM jsonb_each_text(NEW.tags) t
  WHERE NEW.tags IS DISTINCT FROM OLD.tags;
  RETURN NULL;
END $$;
CREATE TRIGGER jobs_changed AFTER UPDATE OF job_type, priority, tags ON millrace.jobs FOR EACH ROW
  WHEN (NEW.job_type <> OLD.job_type OR NEW.priority <> OLD.priority OR NEW.tags IS DISTINCT FROM OLD.tags)
  EXECUTE FUNCTION millrace.note_changed_job();

DROP TRIGGER jobs_post_changed ON millrace.jobs;
DROP FUNCTION millrace.post_changed_job();
DROP TABLE millrace.postings;

-- The lowest job that changed in the minute or day. A span may be of changes alone, and then has no job that was created in it.
ALTER TABLE millrace.seq_spans
  ADD COLUMN changed_seq bigint,        -- null: from before this column, so it may be any job
  ALTER COLUMN min_seq DROP NOT NULL, ALTER COLUMN max_seq DROP NOT NULL;
