-- Purpose: show other processes that the event loop of a worker's process is blocked. Locks: `workers`, for a moment (a column without
-- a default). Breaking: no. A worker of an older program leaves the column null.
ALTER TABLE millrace.workers
  ADD stalled_at timestamptz;  -- since when its event loop has not run; null while it runs
