-- Purpose: find few jobs among many by what they are and when they changed. Locks: ACCESS EXCLUSIVE on `jobs` for a change to the
-- catalogue. Breaking: no.
--
-- An index of `jobs` or `events` for each filter costs every job 2 to 4 us of the database (of 42 in all), inside the hot path. A
-- posting is one row for many jobs that share a term, and the projector writes it when it counts their events. A term
-- is `type:mail`, `priority:1`, `tag:team=blue`, `state:failed` (`dead_letter`, `cancelled`), or `changed` for any change at all.
-- A posting says where to look, as a token does: whoever reads it checks the job's row. Jobs whose events are not counted yet
-- are found by their records; where those are too many to read, jobs are looked at in their order instead.
CREATE TABLE millrace.postings (
  org_id    uuid NOT NULL,
  term      text COLLATE "C" NOT NULL,
  low       bigint NOT NULL,      -- of what the term is ordered by: `seq`, or for `changed` the microsecond
  high      bigint NOT NULL,
  first_seq bigint NOT NULL,
  last_seq  bigint NOT NULL,      -- when no job up to this one is left, the posting goes
  jobs      integer NOT NULL,
  seqs      bigint[] NOT NULL
);
-- Compressing the numbers costs the projector more than all its other writes.
ALTER TABLE millrace.postings ALTER COLUMN seqs SET STORAGE EXTERNAL;
CREATE INDEX postings_downwards ON millrace.postings (org_id, term, high, first_seq, last_seq);  -- newest first, those out of bounds passed over
CREATE INDEX postings_upwards ON millrace.postings (org_id, term, low) WHERE term <> 'changed';  -- oldest first

-- What is changed of a job without a transition gets its postings at once. Transitions do not set these columns, so they never
-- come here.
CREATE FUNCTION millrace.post_changed_job() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO millrace.postings (org_id, term, low, high, first_seq, last_seq, jobs, seqs)
  SELECT NEW.org_id, t.term, NEW.seq, NEW.seq, NEW.seq, NEW.seq, 1, ARRAY[NEW.seq]
  FROM (SELECT 'type:' || NEW.job_type AS term WHERE NEW.job_type <> OLD.job_type
        UNION ALL SELECT 'priority:' || NEW.priority WHERE NEW.priority <> OLD.priority
        UNION ALL SELECT 'tag:' || e.key || '=' || e.value FROM jsonb_each_text(NEW.tags) e
          WHERE NEW.tags IS DISTINCT FROM OLD.tags) t;
  RETURN NULL;
END $$;
CREATE TRIGGER jobs_post_changed AFTER UPDATE OF job_type, priority, tags ON millrace.jobs FOR EACH ROW
  WHEN (NEW.job_type <> OLD.job_type OR NEW.priority <> OLD.priority OR NEW.tags IS DISTINCT FROM OLD.tags)
  EXECUTE FUNCTION millrace.post_changed_job();
