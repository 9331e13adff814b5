-- Purpose: tell the keys that an operator gave from those that clients got by registering, and the orgs that a worker serves
-- (decision 0034). Locks: ACCESS EXCLUSIVE on `api_keys` and `workers` for a moment; the defaults rewrite no row. Breaking: no. A
-- key that an earlier version issues to a registered client counts as one that the client got by registering.

ALTER TABLE millrace.api_keys ADD COLUMN given_by_operator boolean NOT NULL DEFAULT false;
-- Keys that clients got by registering, and their successors, have this name.
UPDATE millrace.api_keys SET given_by_operator = true WHERE name <> 'client key';

-- The orgs of each type that a worker serves for some orgs only. Null: it serves all its types for every org.
ALTER TABLE millrace.workers ADD COLUMN orgs_of_types jsonb;
