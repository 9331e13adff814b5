-- Purpose: row-level security as a second lock between orgs (decision 0064), and `millrace.submit` refuses projects that the org does not
-- have. Locks: ACCESS EXCLUSIVE on every table with an org, for a moment. Breaking: a role other than the owner that reads a view of the
-- schema now needs rights on its tables too.
--
-- Reads for one org run as the role `millrace_reader`, with the org in the setting `millrace.org_id`. The policies name no role, because a
-- role belongs to the whole server: not every owner of a schema may create one, and a dump may be restored where it does not exist. The
-- owner of the tables is not subject to policies, and other roles pass them as before.

-- What the reader may select from: tables with a policy, and tables without rows of orgs.
CREATE TABLE millrace.reader_tables (name text PRIMARY KEY);

-- Each migration that creates a table with an org calls this for it. A test finds tables that were forgotten.
CREATE FUNCTION millrace.protect_by_org(table_name text, org_column text DEFAULT 'org_id') RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  EXECUTE format('ALTER TABLE millrace.%I ENABLE ROW LEVEL SECURITY', table_name);
  -- The subqueries are evaluated once for each statement, and not for each row.
  EXECUTE format($policy$CREATE POLICY of_org ON millrace.%I USING ((SELECT current_user) <> 'millrace_reader'
    OR %I = (SELECT nullif(current_setting('millrace.org_id', true), '')::uuid))$policy$, table_name, org_column);
  INSERT INTO millrace.reader_tables (name) VALUES (table_name);
END $$;

-- For tables and views that reads of an org join, and that contain no rows of orgs, or are views of tables that have policies.
CREATE FUNCTION millrace.share_with_reader(VARIADIC names text[]) RETURNS void LANGUAGE sql
SET search_path = pg_catalog, pg_temp AS $$
  INSERT INTO millrace.reader_tables (name) SELECT unnest(names) ON CONFLICT DO NOTHING
$$;

DO $$
DECLARE
  found text;
BEGIN
  FOR found IN
    SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'org_id' AND NOT a.attisdropped
    WHERE c.relnamespace = 'millrace'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition ORDER BY c.relname
  LOOP
    PERFORM millrace.protect_by_org(found);
  END LOOP;
END $$;
SELECT millrace.protect_by_org('orgs', 'id');
-- A part belongs to the org of its batch, which the policy of batches decides.
ALTER TABLE millrace.batch_parts ENABLE ROW LEVEL SECURITY;
CREATE POLICY of_org ON millrace.batch_parts USING ((SELECT current_user) <> 'millrace_reader'
  OR EXISTS (SELECT FROM millrace.batches b WHERE b.id = batch_id));
SELECT millrace.share_with_reader('policies', 'queues', 'job_types', 'workers', 'projections', 'positions', 'events', 'ready_jobs',
  'settled_jobs', 'cluster', 'streams', 'batch_parts');

-- A view has the rights of its owner unless it says otherwise, so it would pass by the policies.
ALTER VIEW millrace.events SET (security_invoker = true);
ALTER VIEW millrace.ready_jobs SET (security_invoker = true);
ALTER VIEW millrace.positions SET (security_invoker = true);

-- Whether the user of this session may become the reader.
CREATE FUNCTION millrace.may_become_reader() RETURNS boolean LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  may boolean;
BEGIN
  IF to_regrole('millrace_reader') IS NULL THEN RETURN false; END IF;
  -- Since version 16 a member may lack the right to SET ROLE.
  EXECUTE format('SELECT pg_has_role(session_user, ''millrace_reader'', %L)',
    CASE WHEN current_setting('server_version_num')::int >= 160000 THEN 'SET' ELSE 'MEMBER' END) INTO may;
  RETURN may;
END $$;

-- The tables that the reader may not select from yet.
CREATE FUNCTION millrace.missing_reader_rights() RETURNS SETOF text LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT t.name FROM millrace.reader_tables t WHERE NOT has_table_privilege('millrace_reader', format('millrace.%I', t.name), 'SELECT')
$$;

CREATE FUNCTION millrace.reader_is_ready() RETURNS boolean LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN millrace.may_become_reader() AND has_schema_privilege('millrace_reader', 'millrace', 'USAGE')
    AND NOT EXISTS (SELECT FROM millrace.missing_reader_rights());
END $$;

-- Every process calls this when it starts. Returns whether the second lock works. It fails if this user may create no role, or if another
-- user created it: an administrator can then do both.
CREATE FUNCTION millrace.prepare_reader() RETURNS boolean LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  missing text;
BEGIN
  IF to_regrole('millrace_reader') IS NOT NULL AND millrace.reader_is_ready() THEN RETURN true; END IF;
  LOCK TABLE millrace.reader_tables IN SHARE ROW EXCLUSIVE MODE;
  IF to_regrole('millrace_reader') IS NULL THEN
    BEGIN
      CREATE ROLE millrace_reader NOLOGIN;
    EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;  -- another database of this server did so meanwhile
    END;
  END IF;
  IF NOT millrace.may_become_reader() THEN
    IF current_setting('server_version_num')::int >= 160000 THEN
      EXECUTE 'GRANT millrace_reader TO CURRENT_USER WITH SET TRUE, INHERIT FALSE';
    ELSE
      EXECUTE 'GRANT millrace_reader TO CURRENT_USER';
    END IF;
  END IF;
  IF NOT has_schema_privilege('millrace_reader', 'millrace', 'USAGE') THEN GRANT USAGE ON SCHEMA millrace TO millrace_reader; END IF;
  FOR missing IN SELECT m.name FROM millrace.missing_reader_rights() AS m(name) LOOP
    EXECUTE format('GRANT SELECT ON millrace.%I TO millrace_reader', missing);
  END LOOP;
  RETURN true;
EXCEPTION WHEN insufficient_privilege OR read_only_sql_transaction THEN RETURN false;
END $$;

REVOKE ALL ON FUNCTION millrace.protect_by_org, millrace.share_with_reader, millrace.prepare_reader FROM PUBLIC;

-- `millrace.submit` has two conditions more. Its text is long and changes with most kinds of jobs, so only they are put into it.
DO $$
DECLARE
  org CONSTANT text := 'SELECT o.id INTO owner FROM millrace.orgs o WHERE ';
  body CONSTANT text := pg_get_functiondef('millrace.submit'::regproc);
  place CONSTANT text := $place$IF submit.project_id::text !~ uuid_form THEN issues := issues || millrace.issue('project_id', 'INVALID_ID', 'must be a UUID'); END IF;$place$;
  added CONSTANT text := $added$
  IF submit.project_id::text ~ uuid_form AND owner IS NOT NULL
    AND NOT EXISTS (SELECT FROM millrace.projects p WHERE p.org_id = owner AND p.id = submit.project_id) THEN
    issues := issues || millrace.issue('project_id', 'UNKNOWN_PROJECT', 'must be the id of a project of the org: create the project first');
  END IF;$added$;
BEGIN
  IF strpos(body, place) = 0 OR strpos(body, org) = 0 THEN RAISE EXCEPTION 'millrace.submit does not have the expected text.'; END IF;
  EXECUTE replace(replace(body, place, place || added), org, org || 'o.deleting_at IS NULL AND ');
END $$;
