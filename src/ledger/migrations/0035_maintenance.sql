-- Purpose: what maintenance tasks did, the deletion of orgs in steps, and the notification of a webhook about alerts (decision 0067). Locks:
-- `alerts`, `orgs` and `webhooks`, for a moment (columns and small indexes). Breaking: no.

INSERT INTO millrace.queues (name) VALUES ('q:maintenance') ON CONFLICT DO NOTHING;

-- What the last run of each maintenance task did. When it runs is in `schedules`, under the key `maintenance:` and its name. Loops that
-- take turns between processes have a row, too.
CREATE TABLE millrace.maintenance_tasks (
  name            text PRIMARY KEY,
  runs            bigint NOT NULL DEFAULT 0,         -- that ended without an error
  removed_total   bigint NOT NULL DEFAULT 0,
  last_job_id     uuid,
  last_started_at timestamptz,
  last_ended_at   timestamptz,                       -- null: the first run has not ended
  last_removed    bigint NOT NULL DEFAULT 0,         -- by the last run that ended
  has_more        boolean NOT NULL DEFAULT false,    -- the last run reached its bound
  last_error      text                               -- null: the last run had none
) WITH (fillfactor = 50);

-- An org that is being deleted, or was. The row outlives the org for some days, because programs that know its id may still write.
CREATE TABLE millrace.org_erasures (
  org_id          uuid PRIMARY KEY,
  slug            text NOT NULL,
  requested_by    text,
  requested_at    timestamptz NOT NULL,
  started_at      timestamptz NOT NULL,
  begin_txid      xid8 NOT NULL DEFAULT pg_current_xact_id(),  -- transactions below it may have rows of the org that nobody sees yet
  ended_at        timestamptz,                       -- when the org was removed; null: it is there
  next_at         timestamptz NOT NULL,              -- when to look for rows again
  sweeps          smallint NOT NULL DEFAULT 0,       -- how often that was done since the end
  rows_removed    bigint NOT NULL DEFAULT 0,         -- written by the transaction that removes them, so a crash loses none
  jobs_removed    bigint NOT NULL DEFAULT 0,
  objects_removed bigint NOT NULL DEFAULT 0,
  -- A pass goes through all tables. One that finds nothing, and began after all transactions below `begin_txid`, is the last.
  step            text,                              -- the table that the pass continues with; null: a new pass begins
  page            bigint NOT NULL DEFAULT 0,         -- its first page that was not read
  pass_found      bigint NOT NULL DEFAULT 1,         -- rows of the org that this pass has seen; 1 before the first
  pass_is_late    boolean NOT NULL DEFAULT false     -- it began after those transactions
);
CREATE INDEX org_erasures_by_time ON millrace.org_erasures (next_at);  -- the task
CREATE INDEX orgs_deleting ON millrace.orgs (deleting_at) WHERE deleting_at IS NOT NULL;  -- the task

ALTER TABLE millrace.alerts
  ADD notified_at  timestamptz,                      -- when the webhook accepted it
  ADD notify_tries smallint NOT NULL DEFAULT 0,
  ADD notify_after timestamptz;                      -- a process sends it until then, or it failed and waits
CREATE INDEX alerts_listed ON millrace.alerts (first_at DESC, id DESC);           -- lists, and retention
CREATE INDEX alerts_to_notify ON millrace.alerts (first_at) WHERE notified_at IS NULL;
CREATE INDEX webhooks_disabled ON millrace.webhooks (disabled_at) WHERE disabled_reason IN ('gone', 'failing');  -- which alerts to raise
