-- Purpose: positions inside a transaction, items set aside, transaction numbers that survive a restore, and settled jobs. Locks: ACCESS
-- EXCLUSIVE on `projections`, `records` and `webhooks` for changes to the catalogue. Breaking: no. While an older process runs, it reads a
-- large transaction whole: it may then count the part that a newer one has counted a second time.

-- A transaction may hold any number of events, so a reader stops inside of one. `record_id`, `seq` and `n` name the place within
-- transaction `inside_txid`: every event below (record_id, seq, n) has been read. They count only while `inside_txid` equals `txid`, so
-- that a writer that knows `txid` alone can still move the position.
ALTER TABLE millrace.projections
  ADD inside_txid xid8,
  ADD record_id   bigint NOT NULL DEFAULT 0,
  ADD seq         bigint NOT NULL DEFAULT 0,
  ADD n           integer NOT NULL DEFAULT 0,
  ADD holder      uuid,                           -- the process that works on the next page
  ADD held_until  timestamptz;                    -- others leave the page to it until then; only the position protects the data
CREATE VIEW millrace.positions AS
  SELECT name, txid, CASE WHEN inside_txid = txid THEN record_id ELSE 0 END AS record_id,
    CASE WHEN inside_txid = txid THEN seq ELSE 0 END AS seq, CASE WHEN inside_txid = txid THEN n ELSE 0 END AS n
  FROM millrace.projections;

-- What a reader of the history could not process and passed over, so that it blocks nothing behind it.
CREATE TABLE millrace.set_aside (
  id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  projection text NOT NULL,
  org_id     uuid,
  record_id  bigint NOT NULL,
  seq        bigint,                              -- null: the whole record
  n          integer,
  webhook_id uuid,                                -- null: the event failed for every target
  error      text NOT NULL,
  at         timestamptz NOT NULL
);

-- A dump that is restored into another cluster brings old transaction numbers and meets a counter that starts again. An offset keeps
-- new numbers above all old ones. It stands in the text of a function, as the clock does: inlined, it costs nothing.
CREATE FUNCTION millrace.txid_offset() RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE AS 'SELECT 0::bigint';
CREATE FUNCTION millrace.txid() RETURNS xid8 LANGUAGE sql STABLE AS 'SELECT pg_catalog.pg_current_xact_id()';
ALTER TABLE millrace.records ALTER txid SET DEFAULT millrace.txid();
ALTER TABLE millrace.webhooks ALTER since_txid SET DEFAULT millrace.txid(), ALTER filter_txid SET DEFAULT millrace.txid();

-- One row that knows the transaction that wrote it. A dump gives the row another writer; a copy of the files does not. So the row
-- says whether this is still the cluster, or one that continues its numbers.
CREATE TABLE millrace.cluster (
  is_only     boolean PRIMARY KEY DEFAULT true CHECK (is_only),
  written_by  xid8 NOT NULL,
  table_oid   oid NOT NULL,
  txid_offset bigint NOT NULL,
  since       timestamptz NOT NULL
);
INSERT INTO millrace.cluster (written_by, table_oid, txid_offset, since)
  VALUES (pg_current_xact_id(), 'millrace.cluster'::regclass, 0, now());

-- No transaction can still add a job up to `seq`. The same will hold of `next_seq` once the `writers` of that moment are over.
CREATE TABLE millrace.settled_jobs (
  is_only  boolean PRIMARY KEY DEFAULT true CHECK (is_only),
  seq      bigint NOT NULL,
  next_seq bigint NOT NULL,
  writers  text[] NOT NULL
) WITH (fillfactor = 50);
INSERT INTO millrace.settled_jobs (seq, next_seq, writers) VALUES (0, 0, '{}');
