-- Purpose: find policies that no job uses, so that they can be removed (decision 0026). Locks: ACCESS EXCLUSIVE on `policies` for a
-- moment; the default is evaluated once, so no row is rewritten. Breaking: processes of an earlier version hand out policies without
-- saying so. Stop them within two days.

-- When a process last took the policy for new jobs, by the real clock: what processes remember expires by it.
ALTER TABLE millrace.policies ADD COLUMN last_used_at timestamptz NOT NULL DEFAULT now();
CREATE INDEX policies_by_last_use ON millrace.policies (last_used_at); -- candidates of a sweep

-- One row. A process that begins a sweep writes the time, and the others leave the work to it.
CREATE TABLE millrace.policy_sweeps (
  is_only  boolean PRIMARY KEY DEFAULT true CHECK (is_only),
  begun_at timestamptz NOT NULL
);
INSERT INTO millrace.policy_sweeps (begun_at) VALUES ('-infinity');
