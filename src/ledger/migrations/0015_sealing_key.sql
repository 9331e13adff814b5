-- Purpose: a key that all processes share, for texts that clients keep for us, such as cursors (decision 0040). A dump contains it, so
-- cursors stay valid after a restore. Locks: none on existing tables. Breaking: nothing.

-- One row. The key is the randomness of two UUIDs, 244 bits.
CREATE TABLE millrace.sealing_key (
  is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
  secret  bytea NOT NULL
);
INSERT INTO millrace.sealing_key (secret) VALUES (decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex'));
