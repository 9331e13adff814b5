-- Purpose: a claim starts jobs at a time after its snapshot. Locks: none. Breaking: no.
-- `millrace.clock()` is read before the statement takes its snapshot. If the operating system stops the process in between, the claim may see
-- a job that got its turn after that time, when another one had ended. The history would then show both at the same time.
CREATE FUNCTION millrace.clock_after_snapshot() RETURNS timestamptz LANGUAGE sql VOLATILE PARALLEL SAFE
  AS 'SELECT pg_catalog.clock_timestamp()';
