-- Purpose: bind a batch to the project of the key that opened it, so that keys of other projects cannot read it. Locks: `batches`, for a
-- moment (a nullable column is added). Breaking: no.
ALTER TABLE millrace.batches ADD project_id uuid;     -- null: the whole org may use it
