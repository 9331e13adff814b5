-- Purpose: orgs take turns when jobs are claimed (decision 0036). Locks: `ready` cannot be written while its index is built (some seconds
-- for a million rows). Breaking: no. A process of an earlier version still gives stamps to jobs of fair queues, and claims by them.

-- Finds the orgs that wait in a range, and the first jobs of each, without reading the jobs of the others. A run of up to 128 jobs has one
-- entry. Queue and type are one expression, so that no plan can use this index in place of `ready_in_claim_order`, or the other way round.
CREATE INDEX ready_by_org ON millrace.ready ((queue || E'\n' || job_type), priority, org_id, order_key);

-- No queue keeps an order that nobody chose. The program applies the order from its configuration at each start.
ALTER TABLE millrace.queues ALTER COLUMN claim_order SET DEFAULT 'fair';
UPDATE millrace.queues SET claim_order = 'fair';

-- The slots that the worker keeps for orgs that have none of its slots. `explain` reads it.
ALTER TABLE millrace.workers ADD COLUMN reserved_slots integer NOT NULL DEFAULT 0;
