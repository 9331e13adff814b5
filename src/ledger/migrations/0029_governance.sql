-- Purpose: what all parts of governance share: requested actions, alerts, projects, and orgs that are being deleted. Locks: `orgs`, for a
-- moment (nullable columns are added). Breaking: no.

-- Actions that somebody asked for. The transaction of the action writes its row; a loop moves the rows to the audit trail in commit
-- order. The nil uuid as org: the action concerns no org's data.
CREATE TABLE millrace.audit_actions (
  id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  txid           xid8 NOT NULL DEFAULT millrace.txid(),
  at             timestamptz NOT NULL,
  org_id         uuid NOT NULL,
  project_id     uuid,
  event          text NOT NULL,
  actor          text NOT NULL,                     -- `user:`, `system:` or `api_key:`, and an id
  request_id     text,
  correlation_id text,
  job_id         uuid,
  job_type       text,
  attempt        integer,
  details        json                               -- not jsonb, which cannot hold every text
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);
CREATE INDEX audit_actions_in_commit_order ON millrace.audit_actions (txid, id);  -- the loop

-- One row for each hour in which something was wrong with a subject. Repeats within the hour are counted.
CREATE TABLE millrace.alerts (
  id              uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  kind            text NOT NULL,
  severity        text NOT NULL CHECK (severity IN ('info', 'warning', 'error', 'critical')),
  org_id          uuid,                              -- null: it concerns the whole platform
  subject         text NOT NULL,
  message         text NOT NULL,
  repeats         integer NOT NULL DEFAULT 1,
  hour            timestamptz NOT NULL,
  first_at        timestamptz NOT NULL,
  last_at         timestamptz NOT NULL,
  acknowledged_at timestamptz,
  acknowledged_by text,
  announced_at    timestamptz,                       -- when it went to the log and to webhooks
  UNIQUE NULLS NOT DISTINCT (kind, org_id, subject, hour)
) WITH (fillfactor = 80);
CREATE INDEX alerts_by_time ON millrace.alerts (last_at, id);                     -- lists
CREATE INDEX alerts_to_announce ON millrace.alerts (first_at) WHERE announced_at IS NULL;

CREATE TABLE millrace.projects (
  org_id     uuid NOT NULL REFERENCES millrace.orgs (id) ON DELETE CASCADE,
  id         uuid NOT NULL,
  name       text NOT NULL CHECK (length(name) BETWEEN 1 AND 100),
  created_at timestamptz NOT NULL,
  PRIMARY KEY (org_id, id),
  UNIQUE (org_id, name)
);

-- Keys and jobs of earlier versions could name any project.
INSERT INTO millrace.projects (org_id, id, name, created_at)
  SELECT DISTINCT k.org_id, k.project_id, k.project_id::text, millrace.clock() FROM millrace.api_keys k WHERE k.project_id IS NOT NULL
  ON CONFLICT DO NOTHING;
INSERT INTO millrace.projects (org_id, id, name, created_at)
  SELECT DISTINCT j.org_id, j.project_id, j.project_id::text, millrace.clock()
  FROM millrace.jobs j JOIN millrace.orgs o ON o.id = j.org_id WHERE j.project_id IS NOT NULL
  ON CONFLICT DO NOTHING;

ALTER TABLE millrace.orgs
  ADD deleting_at timestamptz,                       -- set: the org is being deleted and accepts nothing
  ADD deleting_by text;
