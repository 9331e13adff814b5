-- Purpose: the counters and histograms that /metrics shows, counted from the history of jobs. Locks: none (new tables). Breaking: no. While
-- an older process runs, it moves the position of the rollups without counting here, so counters miss what it adds up.
--
-- The statement that adds up rollups adds to these rows too, and moves the position with them. So each transition is counted once, however
-- many processes there are and whenever one of them is killed. Rows are few and never deleted: a counter must not go back.

-- The pairs of job type and queue that have series of their own. The first ones are named, so that a name never changes its series; all later
-- pairs share the series "other".
CREATE TABLE millrace.metric_series (
  job_type text NOT NULL,
  queue    text NOT NULL,
  is_mixed boolean NOT NULL DEFAULT false,            -- jobs of the type are in other queues too: each one is looked up
  PRIMARY KEY (job_type, queue)
);

-- Jobs up to this number may be in queues that nothing here knows of: they are looked up.
CREATE TABLE millrace.metric_floor (
  is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
  seq     bigint NOT NULL
);
INSERT INTO millrace.metric_floor (seq) SELECT last_value FROM millrace.job_seq;

-- A job that changes its type or its queue joins others that may all be elsewhere. The hot statements set neither column.
CREATE FUNCTION millrace.mix_series() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF (NEW.job_type, NEW.queue) IS DISTINCT FROM (OLD.job_type, OLD.queue) THEN
    INSERT INTO millrace.metric_series AS s (job_type, queue, is_mixed)
    SELECT NEW.job_type, NEW.queue, true WHERE (SELECT count(*) FROM millrace.metric_series) < 100
    ON CONFLICT (job_type, queue) DO UPDATE SET is_mixed = true WHERE NOT s.is_mixed;
    UPDATE millrace.metric_series SET is_mixed = true WHERE job_type = NEW.job_type AND NOT is_mixed;
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER jobs_mix_series AFTER UPDATE OF job_type, queue ON millrace.jobs FOR EACH ROW EXECUTE FUNCTION millrace.mix_series();

CREATE TABLE millrace.metric_counts (
  name     text NOT NULL,
  job_type text NOT NULL,
  queue    text NOT NULL,
  detail   text NOT NULL,                             -- the third label of the metric, such as the class of an error; or empty
  n        bigint NOT NULL CHECK (n >= 0),
  PRIMARY KEY (name, job_type, queue, detail)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);

CREATE TABLE millrace.metric_histograms (
  name     text NOT NULL,
  job_type text NOT NULL,
  queue    text NOT NULL,
  bucket   smallint NOT NULL CHECK (bucket >= 0),     -- the index of the lowest upper bound that a value does not exceed
  n        bigint NOT NULL CHECK (n >= 0),
  total    double precision NOT NULL,                 -- the sum of the values
  PRIMARY KEY (name, job_type, queue, bucket)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);
