-- Purpose: a record of submitted jobs names their queue, so that the metrics count them without a look at each job. Locks: `records` and its
-- partitions, for a moment (a nullable column is added). Breaking: no.
ALTER TABLE millrace.records ADD queue text;          -- of submitted jobs; null: see each job

-- `millrace.submit` names it too. Its text is long, so only this is put into it.
DO $$
DECLARE
  body CONSTANT text := pg_get_functiondef('millrace.submit'::regproc);
  columns CONSTANT text := 'priority, is_tagged, job_type, reason, seqs)';
  queued CONSTANT text := 'priority, is_tagged, job_type, queue, reason, seqs)';
  given CONSTANT text := $given$submit.job_type, 'submitted', ARRAY[job_seq]);$given$;
  named CONSTANT text := $named$submit.job_type, in_queue, 'submitted', ARRAY[job_seq]);$named$;
BEGIN
  IF strpos(body, columns) = 0 OR strpos(body, given) = 0 THEN RAISE EXCEPTION 'millrace.submit does not have the expected text.'; END IF;
  EXECUTE replace(replace(body, columns, queued), given, named);
END $$;
