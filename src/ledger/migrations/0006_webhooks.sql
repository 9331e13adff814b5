-- Purpose: targets of events, their deliveries and attempts. Locks: none (new tables; one row each in `orgs`, `queues` and
-- `projections`). Breaking: no.
--
-- A target is what receives events: a webhook that a caller registered, or the callback URL of an org's jobs. Its lane is one hot
-- row that holds the order and the breaker: whoever starts or ends a delivery locks its lane first, then the job that delivers. A
-- delivery is one event for one target, an attempt one HTTP request. Of a lane at most one delivery is live, that is, has a job of
-- the engine. Queued deliveries may be written without the lane's lock by whoever then makes an idle lane due, in a statement
-- of its own after the commit; one that dies in between leaves that to the sweep. A delivery that failed and is tried again goes back
-- to the head of its queue, and its lane is due when its time has come: whoever waits holds no slot.

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
  UNIQUE (org_id, id),                            -- what deliveries refer to, so that removing a target finds them by their index
  CHECK ((disabled_at IS NULL) = (disabled_reason IS NULL)),
  CHECK ((kind = 'callback') = (cardinality(events) = 0))
);
-- The same events for the same URL are registered once; an org has one callback target for a URL.
CREATE UNIQUE INDEX webhooks_once ON millrace.webhooks (org_id, kind, md5(url), events) WHERE deleted_at IS NULL;
CREATE INDEX webhooks_by_org ON millrace.webhooks (org_id, created_at, id);  -- lists
-- Who hears of an org's events, whatever callbacks there are beside them.
CREATE INDEX webhooks_registered ON millrace.webhooks (org_id) WHERE kind = 'webhook' AND deleted_at IS NULL;
CREATE INDEX webhooks_deleted ON millrace.webhooks (deleted_at) WHERE deleted_at IS NOT NULL;                -- retention

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

-- Scheme, host and port of a target's URL, as one number: calls are bounded by it. Callbacks are apart: they share their health.
CREATE FUNCTION millrace.origin_of(kind text, url text) RETURNS uuid LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
$$ SELECT md5(kind || ' ' || lower(coalesce(substring(url FROM '^[^:]*://[^/?#]*'), url)))::uuid $$;

-- How the callbacks of an org fare at one origin: each may have a URL of its own, which says nothing of the host behind it.
CREATE TABLE millrace.callback_origins (
  org_id        uuid NOT NULL,
  origin        uuid NOT NULL,
  failures      integer NOT NULL DEFAULT 0,
  failing_since timestamptz,
  next_at       timestamptz,
  PRIMARY KEY (org_id, origin),
  CHECK ((failures = 0) = (failing_since IS NULL))
);

-- Every target has one, made with it.
CREATE TABLE millrace.webhook_lanes (
  webhook_id      uuid PRIMARY KEY REFERENCES millrace.webhooks (id) ON DELETE CASCADE,
  org_id          uuid NOT NULL,
  origin          uuid NOT NULL,                  -- of the target's URL
  is_callback     boolean NOT NULL DEFAULT false, -- it shares the health of its origin
  due_at          timestamptz,                    -- set: deliveries are queued, none is live, the first may start then
  is_ready        boolean NOT NULL DEFAULT false, -- that time has come: it starts when its org, its origin and its standing have room
  standing        smallint NOT NULL DEFAULT 1 CHECK (standing BETWEEN 0 AND 2),  -- 0 it answered last, 1 nothing is known, 2 it failed last
  live_delivery   uuid,
  live_job        uuid,
  failures        integer NOT NULL DEFAULT 0,     -- attempts that failed since the last that did not
  failing_since   timestamptz,                    -- when the first of them ended
  next_at         timestamptz,                    -- the breaker is open until then
  delivered_total bigint NOT NULL DEFAULT 0,
  attempts_total  bigint NOT NULL DEFAULT 0,
  failures_total  bigint NOT NULL DEFAULT 0,      -- failed attempts
  CHECK (live_delivery IS NULL OR due_at IS NULL),
  CHECK (NOT is_ready OR due_at IS NOT NULL),
  CHECK ((live_delivery IS NULL) = (live_job IS NULL)),
  CHECK ((failures = 0) = (failing_since IS NULL))
) WITH (fillfactor = 50);
CREATE INDEX webhook_lanes_due ON millrace.webhook_lanes (due_at) WHERE due_at IS NOT NULL AND NOT is_ready;  -- whose time comes next
-- The promoter goes from org to org and from origin to origin, and never past the lanes of one that has no room.
CREATE INDEX webhook_lanes_ready ON millrace.webhook_lanes (standing, org_id, origin, due_at) WHERE is_ready;
CREATE INDEX webhook_lanes_live ON millrace.webhook_lanes (org_id, origin) WHERE live_delivery IS NOT NULL;  -- how many are live; the sweep

CREATE SEQUENCE millrace.delivery_position;       -- order within a lane; a replay takes a new one
CREATE TABLE millrace.webhook_deliveries (
  id         uuid PRIMARY KEY,
  org_id     uuid NOT NULL,
  webhook_id uuid NOT NULL,
  position   bigint NOT NULL,
  job_id     uuid,                                -- whose event; null for one that is of no job
  n          integer,                             -- of the transition within the job
  index      smallint NOT NULL DEFAULT 0,         -- of the event within the transition
  event      text NOT NULL,
  body       text NOT NULL,                       -- the bytes that are signed and sent
  state      text NOT NULL CHECK (state IN ('queued', 'live', 'delivered', 'failed')),
  attempts   integer NOT NULL DEFAULT 0,
  tries      integer NOT NULL DEFAULT 0,          -- those since it was queued, or its target's failures were forgotten
  created_at timestamptz NOT NULL,
  ended_at   timestamptz,
  CHECK ((ended_at IS NOT NULL) = (state IN ('delivered', 'failed'))),
  CHECK ((job_id IS NULL) = (n IS NULL)),
  FOREIGN KEY (org_id, webhook_id) REFERENCES millrace.webhooks (org_id, id) ON DELETE CASCADE
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
