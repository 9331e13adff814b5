-- Purpose: direct producers of download tasks (decision 0061): programs with a database role that may insert rows into `task_intake` and
-- do nothing else. Locks: `ingest_jobs`, for a moment. Breaking: no.
--
-- Roles belong to the whole server, and not every owner of a schema may create some. So this migration creates none: `create_producer` does.

CREATE TABLE millrace.producers (
  role       text PRIMARY KEY,
  org_id     uuid NOT NULL REFERENCES millrace.orgs (id) ON DELETE CASCADE,
  created_at timestamptz NOT NULL
);

-- A producer may insert the columns from `job_type` to `manifest_key`. A trigger sets the others.
CREATE TABLE millrace.task_intake (
  id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  org_id       uuid NOT NULL REFERENCES millrace.orgs (id) ON DELETE CASCADE,
  producer     text NOT NULL,
  received_at  timestamptz NOT NULL,
  bytes        integer NOT NULL,
  job_type     text,
  job_id       uuid NOT NULL,                        -- the producer's own id; the ledger has another one
  resource_id  text,
  url          text,
  headers      jsonb,
  tags         jsonb,
  proxy        text,
  storage      jsonb,
  manifest_key text
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);
CREATE INDEX task_intake_by_org ON millrace.task_intake (org_id, id);  -- the intake: the oldest tasks of each org

ALTER TABLE millrace.ingest_jobs
  ADD COLUMN producer text,                          -- who published its tasks; null: it was a request
  ADD COLUMN producer_job_id uuid,                   -- the id under which the producer published them
  ADD COLUMN manifest_key text;                      -- where the producer says that its manifest is
CREATE UNIQUE INDEX ingest_jobs_by_producer ON millrace.ingest_jobs (org_id, job_type, producer_job_id)
  WHERE producer_job_id IS NOT NULL;                 -- the intake: the job of a task

-- The org comes from the role that logged in, which SET ROLE does not change. A row without an org is from a role that is no producer. Only
-- the owner of the table can write `org_id` itself.
CREATE FUNCTION millrace.receive_task() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  owner uuid;
BEGIN
  SELECT p.org_id INTO owner FROM millrace.producers p WHERE p.role = session_user::text;
  IF FOUND THEN
    NEW.org_id := owner;
    NEW.producer := session_user;
  ELSIF NEW.org_id IS NULL THEN
    RAISE EXCEPTION 'The role "%" is not a producer of this database.', session_user
      USING ERRCODE = '42501', HINT = 'Create it with "millrace producers create NAME --org ORG".';
  END IF;
  NEW.producer := coalesce(NEW.producer, session_user);
  NEW.received_at := millrace.clock();
  -- Tasks without a job id belong together if one transaction inserts them.
  IF NEW.job_id IS NULL THEN
    NEW.job_id := left(encode(sha256(convert_to(concat_ws(' ', NEW.producer, pg_current_xact_id(), transaction_timestamp()), 'UTF8')), 'hex'), 32)::uuid;
  END IF;
  NEW.bytes := octet_length(concat(NEW.job_type, NEW.resource_id, NEW.url, NEW.headers, NEW.tags, NEW.proxy, NEW.storage, NEW.manifest_key));
  IF NEW.bytes > 1048576 THEN
    RAISE EXCEPTION 'A task has at most 1 MB; this one has % bytes.', NEW.bytes
      USING ERRCODE = '54000', HINT = 'Put large values into an object, and its key into the task.';
  END IF;
  RETURN NEW;
END $$;

CREATE FUNCTION millrace.announce_tasks() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM pg_notify('millrace', 'sql intake');
  RETURN NULL;
END $$;

CREATE TRIGGER receive_task BEFORE INSERT ON millrace.task_intake FOR EACH ROW EXECUTE FUNCTION millrace.receive_task();
CREATE TRIGGER announce_tasks AFTER INSERT ON millrace.task_intake FOR EACH STATEMENT EXECUTE FUNCTION millrace.announce_tasks();

-- Creates a role that can log in. It never changes a role that exists. `verifier` is the SCRAM form of the password, so no log of the
-- server has the password.
CREATE FUNCTION millrace.create_producer(role text, verifier text, org uuid) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  LOCK TABLE millrace.producers IN SHARE ROW EXCLUSIVE MODE;
  IF NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = 'millrace_producer') THEN
    BEGIN
      CREATE ROLE millrace_producer NOLOGIN;
    EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;  -- another database of this server did so meanwhile
    END;
  END IF;
  GRANT USAGE ON SCHEMA millrace TO millrace_producer;
  GRANT INSERT (job_type, job_id, resource_id, url, headers, tags, proxy, storage, manifest_key) ON millrace.task_intake TO millrace_producer;
  EXECUTE format('CREATE ROLE %I LOGIN PASSWORD %L IN ROLE millrace_producer', create_producer.role, verifier);
  -- A row without a role is from a backup of another server.
  INSERT INTO millrace.producers AS p (role, org_id, created_at) VALUES (create_producer.role, org, millrace.clock())
    ON CONFLICT ON CONSTRAINT producers_pkey DO UPDATE SET org_id = excluded.org_id, created_at = excluded.created_at;
END $$;

-- Returns false if there is no such producer. Roles that are no producers are never removed.
CREATE FUNCTION millrace.delete_producer(role text) RETURNS boolean LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  DELETE FROM millrace.producers p WHERE p.role = delete_producer.role;
  IF NOT FOUND THEN RETURN false; END IF;
  EXECUTE format('DROP ROLE IF EXISTS %I', delete_producer.role);
  RETURN true;
END $$;

REVOKE ALL ON FUNCTION millrace.create_producer, millrace.delete_producer, millrace.receive_task, millrace.announce_tasks FROM PUBLIC;
