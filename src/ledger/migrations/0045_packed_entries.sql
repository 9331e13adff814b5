-- Purpose: many entries of one job are written to a stream as one row (decision 0060). Locks: `stream_entries` exclusively, for a moment; it is
-- read once to check the new constraints. Breaking: a process of an earlier version cannot give such a row its offsets, so its reads of streams
-- fail while there are some. Stop the older processes.
--
-- A row with several entries has the offset of the last one, so a reader that starts at any of them finds it with `stream_offset >= from`.
-- Its body is a list of pairs: the time in milliseconds, or null for the time of the row, and the body of the entry.
--
-- `first_offset` repeats what the other two columns say, so that the constraint refuses a numberer that gives a row one offset.
ALTER TABLE millrace.stream_entries ADD COLUMN entries integer NOT NULL DEFAULT 1, ADD COLUMN first_offset bigint,
  ADD CONSTRAINT packs_have_all_offsets CHECK (entries = 1 OR stream_offset IS NOT DISTINCT FROM first_offset + entries - 1),
  ADD CONSTRAINT packs_are_lists CHECK (entries = 1 OR entries > 1 AND stream <> 'jobs.dlq' AND json_typeof(body) = 'array');
