-- Purpose: targets of events, their deliveries and attempts. Locks: none (new tables; one row each in `orgs`, `queues` and
-- `projections`). Breaking: no.
--
-- A target is what receives events: a webhook that a caller registered, or the callback URL of an org's jobs. Its lane is one hot
-- row that holds the order and the breaker: whoever starts or ends a delivery locks its lane first, then the job that delivers. A
-- delivery is one event for one target, an attempt one HTTP request. Of a lane at most one delivery is live, that is, has a job of
-- the engine. Queued deliveries may be written without the lane's lock by whoever then makes an idle lane due, in a statement
-- of its own after the commit; one that dies in between leaves that to the sweep.

-- Deliveries are jobs of an org of their own: they count in no caller's quota, list or cap, and their events match no target.
-- The dot keeps its name from those that people choose.
INSERT INTO millrace.orgs (id, slug) VALUES ('00000000-0000-4000-8000-000000000001', 'millrace.system');
INSERT INTO millrace.queues (name) VALUES ('q:notifications') ON CONFLICT DO NOTHING;

-- The outbox is `records`: what was written before there were targets is for nobody.
INSERT INTO millrace.projections (name, txid) VALUES ('webhooks', pg_current_xact_id());

CREATE TABLE millrace.webhooks (
  id              uuid PRIMARY KEY,
  org_id          uuid NOT NULL,
  kind            text NOT NULL CHECK (kind IN ('webhook', 'callback')),
  url             text NOT NULL CHECK (length(url) BETWEEN 1 AND 2048),
  events          text[] NOT NULL,                -- sorted and distinct; of a callback empty, its jobs decide
  description     text CHECK (length(description) <= 256),
  since_txid      xid8 NOT NULL DEFAULT pg_current_xact_id(),  -- events of later transactions are for it
  filter_txid     xid8 NOT NULL DEFAULT pg_current_xact_id(),  -- that last changed `events`; what came before cannot be judged by them
  created_at      timestamptz NOT NULL,
  updated_at      timestamptz NOT NULL,
  disabled_at     timestamptz,
  disabled_reason text CHECK (disabled_reason IN ('manual', 'gone', 'failing')),
  deleted_at      timestamptz,
  CHECK ((disabled_at IS NULL) = (disabled_reason IS NULL)),
  CHECK ((kind = 'callback') = (cardinality(events) = 0))
);
-- The same events for the same URL are registered once; an org has one callback target for a URL.
CREATE UNIQUE INDEX webhooks_once ON millrace.webhooks (org_id, kind, md5(url), events) WHERE deleted_at IS NULL;
CREATE INDEX webhooks_by_org ON millrace.webhooks (org_id, created_at, id);  -- lists; the targets of an event

-- A signature needs the secret itself, so it is kept as it is. It appears in no list, error or log.
CREATE TABLE millrace.webhook_secrets (
  webhook_id uuid NOT NULL REFERENCES millrace.webhooks (id) ON DELETE CASCADE,
  n          integer NOT NULL,
  org_id     uuid NOT NULL,
  secret     bytea NOT NULL CHECK (octet_length(secret) BETWEEN 24 AND 64),
  created_at timestamptz NOT NULL,
  expires_at timestamptz,                         -- null: the current one
  PRIMARY KEY (webhook_id, n)
);

-- Orgs that ever named a callback, with the secret their callbacks are signed with. Written before the job that names one, so
-- that whoever sees an event of the job sees this row too. Never removed.
CREATE TABLE millrace.callback_orgs (
  org_id         uuid PRIMARY KEY,
  secret         bytea NOT NULL CHECK (octet_length(secret) BETWEEN 24 AND 64),
  old_secret     bytea CHECK (octet_length(old_secret) BETWEEN 24 AND 64),
  old_expires_at timestamptz,
  created_at     timestamptz NOT NULL,
  CHECK ((old_secret IS NULL) = (old_expires_at IS NULL))
);

-- Every target has one, made with it.
CREATE TABLE millrace.webhook_lanes (
  webhook_id      uuid PRIMARY KEY REFERENCES millrace.webhooks (id) ON DELETE CASCADE,
  org_id          uuid NOT NULL,
  due_at          timestamptz,                    -- set: deliveries are queued, none is live, the first may start then
  live_delivery   uuid,
  live_job        uuid,
  failures        integer NOT NULL DEFAULT 0,     -- attempts that failed since the last that did not
  failing_since   timestamptz,                    -- when the first of them ended
  next_at         timestamptz,                    -- the breaker is open until then
  delivered_total bigint NOT NULL DEFAULT 0,
  attempts_total  bigint NOT NULL DEFAULT 0,
  failures_total  bigint NOT NULL DEFAULT 0,      -- failed attempts
  CHECK (live_delivery IS NULL OR due_at IS NULL),
  CHECK ((live_delivery IS NULL) = (live_job IS NULL)),
  CHECK ((failures = 0) = (failing_since IS NULL))
) WITH (fillfactor = 50);
CREATE INDEX webhook_lanes_due ON millrace.webhook_lanes (due_at) WHERE due_at IS NOT NULL;              -- the promoter
CREATE INDEX webhook_lanes_live ON millrace.webhook_lanes (webhook_id) WHERE live_delivery IS NOT NULL;  -- how many are live; the sweep

CREATE SEQUENCE millrace.delivery_position;       -- order within a lane; a replay takes a new one
CREATE TABLE millrace.webhook_deliveries (
  id         uuid PRIMARY KEY,
  org_id     uuid NOT NULL,
  webhook_id uuid NOT NULL REFERENCES millrace.webhooks (id) ON DELETE CASCADE,
  position   bigint NOT NULL,
  job_id     uuid,                                -- whose event; null for one that is of no job
  n          integer,                             -- of the transition within the job
  index      smallint NOT NULL DEFAULT 0,         -- of the event within the transition
  event      text NOT NULL,
  body       text NOT NULL,                       -- the bytes that are signed and sent
  state      text NOT NULL CHECK (state IN ('queued', 'live', 'delivered', 'failed')),
  attempts   integer NOT NULL DEFAULT 0,
  created_at timestamptz NOT NULL,
  ended_at   timestamptz,
  CHECK ((ended_at IS NOT NULL) = (state IN ('delivered', 'failed'))),
  CHECK ((job_id IS NULL) = (n IS NULL))
) WITH (fillfactor = 70);
-- An event reaches a target as one delivery.
CREATE UNIQUE INDEX deliveries_once ON millrace.webhook_deliveries (webhook_id, job_id, n, index) WHERE job_id IS NOT NULL;
CREATE INDEX deliveries_queued ON millrace.webhook_deliveries (webhook_id, position) WHERE state = 'queued';  -- the next of a lane
CREATE INDEX deliveries_listed ON millrace.webhook_deliveries (org_id, webhook_id, created_at DESC, id DESC);
CREATE INDEX deliveries_failed ON millrace.webhook_deliveries (webhook_id, ended_at) WHERE state = 'failed';      -- replay of what failed
CREATE INDEX deliveries_by_age ON millrace.webhook_deliveries (created_at);                                   -- retention

CREATE TABLE millrace.webhook_attempts (
  delivery_id uuid NOT NULL REFERENCES millrace.webhook_deliveries (id) ON DELETE CASCADE,
  n           integer NOT NULL,
  org_id      uuid NOT NULL,
  lease_seq   bigint,                             -- of the engine's attempt that made it; null: its job is gone
  ended_at    timestamptz NOT NULL,
  duration_ms integer NOT NULL,
  verdict     text NOT NULL CHECK (verdict IN ('delivered', 'retry', 'failed', 'gone', 'interrupted')),
  status      smallint,                           -- null: there was no answer
  error_code  text,
  answer      text CHECK (octet_length(answer) <= 4096),  -- its beginning, masked
  PRIMARY KEY (delivery_id, n)
);
