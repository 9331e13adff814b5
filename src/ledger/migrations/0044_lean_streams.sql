-- Purpose: the entries of streams and the ends of downloads are written with less work (decision 0060). Locks: `stream_entries` and `streams`,
-- exclusively; `stream_entries` is read once to check the new constraint. Breaking: no.

-- The streams are fixed. A reference looked up and locked the row of the stream for each entry, and that row changes with every offset.
ALTER TABLE millrace.stream_entries DROP CONSTRAINT stream_entries_stream_fkey,
  ADD CONSTRAINT streams_are_known CHECK (stream IN ('jobs.tasks', 'jobs.logs', 'jobs.dlq'));

-- Offsets follow the time, so the trimmer reads from the lowest offset. Only alerts look for the time of entries, in jobs.dlq.
DROP INDEX millrace.stream_entries_by_age;
CREATE INDEX stream_entries_dead_by_age ON millrace.stream_entries (at) WHERE stream = 'jobs.dlq';

-- The end of each resource is copied to its row once. A page with room for a second version of all its rows needs no new index entries.
ALTER TABLE millrace.ingest_resources SET (fillfactor = 50);
