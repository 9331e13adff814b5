-- Purpose: many entries of one job are written to a stream as one row (decision 0060). Locks: `stream_entries` exclusively, for a moment; it is
-- read once to check the new constraint. Breaking: a process of an earlier version shows the entries of such a row as one.
--
-- A row with several entries has the offset of the last one, so a reader that starts at any of them finds it with `stream_offset >= from`.
-- Its body is a list of pairs: the time in milliseconds, or null for the time of the row, and the body of the entry.
ALTER TABLE millrace.stream_entries ADD COLUMN entries integer NOT NULL DEFAULT 1,
  ADD CONSTRAINT packs_are_lists CHECK (entries = 1 OR entries > 1 AND stream <> 'jobs.dlq' AND json_typeof(body) = 'array');
