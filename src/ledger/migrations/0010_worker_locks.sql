-- Purpose: show other processes when the process of a worker has ended. Locks: `workers`, for a moment (two columns without a
-- default). Breaking: no. A worker of an older program leaves both columns null and is judged by its heartbeat alone.
--
-- The session of a worker's heartbeat holds an advisory lock for as long as it lives, and PostgreSQL ends the session with the
-- process. Every session takes a new number, so a worker that reconnects never waits for the session it lost.
ALTER TABLE millrace.workers
  ADD lock_no integer,  -- the advisory lock its session holds; null: it holds none and must not be missed for it
  ADD beat_ms integer;  -- the longest pause between two of its heartbeats

-- The second key of an advisory lock is an integer. After 2^31 numbers the sequence begins again.
CREATE SEQUENCE millrace.worker_lock_no AS integer CYCLE;
