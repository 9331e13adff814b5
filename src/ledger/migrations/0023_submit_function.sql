-- Purpose: `millrace.submit`, a function that submits a job from any SQL client or trigger (decision 0054). Workers store with a type which
-- policy and payload size their process has, because a SQL client has no settings. Locks: `job_types`, for a moment. Breaking: no.
--
-- The function checks what src/core/submission.ts checks, and writes what src/ledger/jobs/submit-jobs.ts writes. test/library/sql-*
-- compare both, refusals included. A change of the rules needs a new version of the functions in a new migration.

ALTER TABLE millrace.job_types
  ADD COLUMN profile jsonb,                        -- the policy under `defaults`; null: `millrace.default_policy()`
  ADD COLUMN max_payload_bytes integer CHECK (max_payload_bytes >= 1);  -- null: 1 MB

-- The profile gopherqueue of src/core/policy.ts.
CREATE FUNCTION millrace.default_policy() RETURNS jsonb LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT jsonb '{
  "profile": "gopherqueue", "maxAttempts": 3, "timeoutMs": 1800000, "leaseMs": 300000, "lifetimeMs": 604800000,
  "backoff": {"strategy": "EXPONENTIAL", "initialDelayMs": 1000, "maxDelayMs": 3600000, "multiplier": 2, "jitter": true},
  "autoRetry": true, "retryOnTimeout": true, "retryOnSystem": true, "onOrphan": "retry", "cancelGraceMs": 30000,
  "keyWindowMs": 86400000, "retentionMs": 2592000000, "cancelsAtOnce": false, "retriesByHand": "extend"}' $$;

-- A number as JavaScript prints it, which is the shortest text that reads as the same double. PostgreSQL prints some doubles with one digit
-- more, because it does not use a text half-way between two doubles. Null: no double is near enough.
CREATE FUNCTION millrace.json_number(value numeric) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET extra_float_digits = 1 AS $$
DECLARE
  double float8;
  shortest numeric;
  shorter numeric;
  plain text;
  digits text;
  exponent integer;
BEGIN
  IF value IN ('NaN', 'Infinity', '-Infinity') OR abs(value) > 1.7976931348623157e308 THEN RETURN NULL; END IF;
  IF abs(value) < 3e-324 THEN RETURN '0'; END IF;
  double := value;
  shortest := abs(double)::text::numeric;
  FOR round IN 1..2 LOOP
    plain := trim_scale(shortest)::text;
    digits := ltrim(replace(plain, '.', ''), '0');
    exponent := CASE WHEN shortest >= 1 THEN length(split_part(plain, '.', 1)) - 1
                     ELSE length(digits) - length(split_part(plain, '.', 2)) - 1 END;
    digits := rtrim(digits, '0');
    EXIT WHEN length(digits) < 16;
    shorter := round(shortest, length(digits) - 2 - exponent);
    -- The greatest double could become too great.
    EXIT WHEN shorter > 1.7976931348623157e308 OR shorter::float8 <> abs(double);
    shortest := shorter;
  END LOOP;
  IF exponent NOT BETWEEN -7 + 1 AND 20 THEN
    plain := left(digits, 1) || CASE WHEN length(digits) > 1 THEN '.' || substr(digits, 2) ELSE '' END
      || 'e' || CASE WHEN exponent < 0 THEN '-' ELSE '+' END || abs(exponent);
  END IF;
  RETURN CASE WHEN double < 0 THEN '-' ELSE '' END || plain;
END $$;

-- The values inside a value, each with its place: the numbers of its ancestors and itself. Members are numbered in the order of their
-- UTF-16 units. This is the order of their bytes, except that U+E000 to U+FFFF follow all greater characters.
CREATE FUNCTION millrace.json_nodes(value jsonb) RETURNS TABLE (place integer[], name text, kind text, node jsonb)
LANGUAGE sql STABLE PARALLEL SAFE AS $$
  WITH RECURSIVE nodes AS (
    SELECT '{}'::int4[] AS place, NULL::text AS name, jsonb_typeof($1) AS kind, $1 AS node
    UNION ALL
    SELECT n.place || c.number, c.name, jsonb_typeof(c.node), c.node FROM nodes n CROSS JOIN LATERAL (
      SELECT m.key AS name, m.value AS node, (row_number() OVER (ORDER BY
        regexp_replace(regexp_replace(m.key, U&'\+10FFFF', U&'\+10FFFF\0001', 'g'), '[\uE000-\uFFFF]', U&'\+10FFFF\005C\0026', 'g') COLLATE "C"))::int4 AS number
      FROM jsonb_each(CASE n.kind WHEN 'object' THEN n.node ELSE '{}' END) m
      UNION ALL
      SELECT NULL, i.item, i.number::int4
      FROM jsonb_array_elements(CASE n.kind WHEN 'array' THEN n.node ELSE '[]' END) WITH ORDINALITY AS i(item, number)) c
    WHERE n.kind IN ('object', 'array')
  )
  SELECT place, name, kind, node FROM nodes
$$;

-- RFC 8785, as src/core/canonical-json.ts writes it.
CREATE FUNCTION millrace.canonical_json(value jsonb) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS $$
  WITH nodes AS MATERIALIZED (SELECT * FROM millrace.json_nodes($1)), parts AS (
    SELECT place, CASE WHEN place[cardinality(place)] > 1 THEN ',' ELSE '' END || coalesce(to_json(name)::text || ':', '') ||
      CASE kind WHEN 'object' THEN '{' WHEN 'array' THEN '[' WHEN 'number' THEN CASE WHEN node::text ~ '^-?\d{1,15}$' THEN node::text ELSE millrace.json_number(node::numeric) END
        ELSE node::text END AS part FROM nodes
    UNION ALL
    SELECT place || 2147483647, CASE kind WHEN 'object' THEN '}' ELSE ']' END FROM nodes WHERE kind IN ('object', 'array')
  )
  SELECT string_agg(part, '' ORDER BY place) FROM parts
$$;

CREATE FUNCTION millrace.json_fingerprint(value jsonb) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS
$$ SELECT encode(sha256(convert_to(millrace.canonical_json($1), 'UTF8')), 'hex') $$;

-- The functions below return lists of problems, empty for a valid value. The codes are those of the library.
CREATE FUNCTION millrace.issue(field text, code text, problem text) RETURNS jsonb LANGUAGE sql STABLE PARALLEL SAFE AS
$$ SELECT jsonb_build_array(jsonb_build_object('field', left(field, 200), 'code', code, 'message', left(field, 200) || ' ' || problem)) $$;

CREATE FUNCTION millrace.reserved_name_issues(value text, field text) RETURNS jsonb LANGUAGE sql STABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN value IN ('__proto__', '__defineGetter__', '__defineSetter__', '__lookupGetter__', '__lookupSetter__', 'constructor',
      'hasOwnProperty', 'isPrototypeOf', 'propertyIsEnumerable', 'prototype', 'toLocaleString', 'toString', 'valueOf')
    THEN millrace.issue(field, 'RESERVED_NAME', format('must not be %s: JavaScript reserves that name. Choose another one', value))
    ELSE '[]' END
$$;

CREATE FUNCTION millrace.text_issues(value text, field text, most integer, is_name boolean DEFAULT false) RETURNS jsonb
LANGUAGE sql STABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN value IS NULL THEN '[]'
    WHEN value = '' THEN millrace.issue(field, 'TOO_SHORT', 'must not be empty')
    WHEN length(value) > most THEN millrace.issue(field, 'TOO_LONG', format('must have at most %s characters', most))
    WHEN is_name AND value ~ '[\x01-\x1f\x7f]' THEN millrace.issue(field, 'INVALID_TEXT', 'must not contain control characters')
    ELSE '[]' END
$$;

CREATE FUNCTION millrace.word_issues(value text, field text, words text[]) RETURNS jsonb LANGUAGE sql STABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN value IS NULL OR value = ANY (words) THEN '[]'
    ELSE millrace.issue(field, 'INVALID_VALUE', 'must be one of ' || array_to_string(words, ', ')) END
$$;

CREATE FUNCTION millrace.duration_issues(value interval, field text) RETURNS jsonb LANGUAGE sql STABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN value IS NULL THEN '[]'
    WHEN NOT isfinite(value) OR abs(extract(epoch FROM value)) > 9007199254740 THEN millrace.issue(field, 'INVALID_DURATION', 'is not a duration: the duration is too long')
    WHEN extract(year FROM value) <> 0 OR extract(month FROM value) <> 0 THEN millrace.issue(field, 'INVALID_DURATION',
      'is not a duration: months and years have no fixed length: use weeks, days, hours, minutes or seconds')
    WHEN extract(epoch FROM value) < 0 THEN millrace.issue(field, 'INVALID_DURATION', 'is not a duration: a duration cannot be negative')
    ELSE '[]' END
$$;

-- Null for an interval with a problem.
CREATE FUNCTION millrace.duration_ms(value interval) RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE AS
$$ SELECT CASE WHEN millrace.duration_issues(value, '') = '[]' THEN round(extract(epoch FROM value) * 1000)::int8 END $$;

CREATE FUNCTION millrace.payload_issues(payload jsonb, most integer) RETURNS jsonb LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
DECLARE
  too_large jsonb := millrace.issue('payload', 'PAYLOAD_TOO_LARGE', format('is larger than %s bytes', most));
  encoded text;
  written text;
  found record;
BEGIN
  IF payload IS NULL OR payload = 'null' THEN RETURN millrace.issue('payload', 'REQUIRED', 'is required'); END IF;
  IF jsonb_typeof(payload) <> 'object' THEN
    RETURN millrace.issue('payload', 'INVALID_TYPE', 'must be a JSON object, such as {"to": "ada@example.com"}');
  END IF;
  IF payload ? '$bytes' AND payload - '$bytes' = '{}' THEN
    IF jsonb_typeof(payload->'$bytes') <> 'string' THEN RETURN millrace.issue('payload.$bytes', 'INVALID_TYPE', 'must be a base64 string'); END IF;
    encoded := payload->>'$bytes';
    IF length(encoded) > ceil(most / 3.0) * 4 THEN RETURN too_large; END IF;
    IF length(encoded) % 4 <> 0 OR encoded !~ '^[A-Za-z0-9+/]*={0,2}$' THEN
      RETURN millrace.issue('payload.$bytes', 'INVALID_BASE64', 'must be valid base64');
    END IF;
    RETURN CASE WHEN octet_length(decode(encoded, 'base64')) > most THEN too_large ELSE '[]' END;
  END IF;
  written := payload::text;
  -- A value of 64 levels has at least as many brackets, and an integer that no double has at least 16 digits. Most payloads have neither.
  IF length(written) - length(translate(written, '{[', '')) > 64 OR written ~ '\d{16}' THEN
    SELECT max(cardinality(place) + (kind IN ('object', 'array'))::int4) AS depth,
      (array_agg(node::text ORDER BY place) FILTER (WHERE kind = 'number' AND CASE WHEN kind = 'number' THEN
        coalesce(node::numeric = trunc(node::numeric) AND node::numeric <> millrace.json_number(node::numeric)::numeric, true) END))[1] AS number
    INTO found FROM millrace.json_nodes(payload);
    IF found.depth > 64 THEN RETURN millrace.issue('payload', 'TOO_DEEP', 'must not be nested more than 64 levels deep'); END IF;
    IF found.number IS NOT NULL THEN
      RETURN millrace.issue('payload', 'NOT_SERIALIZABLE', format('contains the number %s, which JavaScript would change; pass it as a string', left(found.number, 40)));
    END IF;
  END IF;
  IF octet_length(written) > most AND octet_length(millrace.canonical_json(payload)) > most THEN RETURN too_large; END IF;
  RETURN '[]';
END $$;

CREATE FUNCTION millrace.tag_issues(tags jsonb) RETURNS jsonb LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
DECLARE
  tag record;
  field text;
  issues jsonb := '[]';
BEGIN
  IF tags IS NULL THEN RETURN '[]'; END IF;
  IF jsonb_typeof(tags) <> 'object' THEN RETURN millrace.issue('tags', 'INVALID_TYPE', 'must be a JSON object of strings'); END IF;
  IF (SELECT count(*) FROM jsonb_object_keys(tags)) > 50 THEN RETURN millrace.issue('tags', 'TOO_MANY', 'must have at most 50 entries'); END IF;
  FOR tag IN SELECT t.key, t.value, jsonb_typeof(t.value) AS kind FROM jsonb_each(tags) t LOOP
    field := 'tags.' || left(tag.key, 128);
    issues := issues || millrace.text_issues(tag.key, field, 128) || millrace.reserved_name_issues(tag.key, field)
      || CASE WHEN tag.kind <> 'string' THEN millrace.issue(field, 'INVALID_TYPE', 'must be a string')
              WHEN tag.value = '""' THEN '[]' ELSE millrace.text_issues(tag.value #>> '{}', field, 256) END;
  END LOOP;
  RETURN issues;
END $$;

-- Stricter than a parser of URLs, which would repair some texts: the repaired host may not be the one meant.
CREATE FUNCTION millrace.url_issues(value text, field text) RETURNS jsonb LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
DECLARE
  parts text[] := regexp_match(value, '^https?://(\[[0-9a-f:.]+\]|[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*\.?)(?::(\d{1,5}))?(?:[/?#][^\x01-\x20\x7f-\xa0\\]*)?$', 'i');
  wrong jsonb := millrace.issue(field, 'INVALID_URL', 'must be an absolute http or https URL, such as https://example.com/hook');
BEGIN
  IF value IS NULL THEN RETURN '[]'; END IF;
  IF millrace.text_issues(value, field, 2048, true) <> '[]' THEN RETURN millrace.text_issues(value, field, 2048, true); END IF;
  IF parts IS NULL OR parts[2]::int4 > 65535 THEN RETURN wrong; END IF;
  -- An address in brackets, or one whose last part is a number, must be complete. PostgreSQL 15 cannot check a text without an error.
  IF parts[1] ~ '^\[' AND family(btrim(parts[1], '[]')::inet) <> 6 THEN RETURN wrong; END IF;
  IF parts[1] ~ '(^|\.)(\d+|0x[0-9A-Fa-f]*)\.?$' AND family(rtrim(parts[1], '.')::inet) <> 4 THEN RETURN wrong; END IF;
  RETURN '[]';
EXCEPTION WHEN invalid_text_representation THEN RETURN wrong;
END $$;

CREATE FUNCTION millrace.traceparent_issues(value text) RETURNS jsonb LANGUAGE sql STABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN value IS NULL OR length(value) <= 256 AND value ~ '^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?$'
      AND value !~ '^(ff|[0-9a-f]{2}-0{32}|.{35}-0{16}|00-.{52}.)' THEN '[]'
    ELSE millrace.issue('traceparent', 'INVALID_VALUE', 'must be a W3C traceparent such as 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01') END
$$;

-- The first layer with a value wins, as in src/core/policy.ts.
CREATE FUNCTION millrace.overlay_policy(under jsonb, layer jsonb) RETURNS jsonb LANGUAGE sql STABLE PARALLEL SAFE AS $$
  SELECT under
    || coalesce((SELECT jsonb_object_agg(l.key, l.value) FROM jsonb_each(layer) l WHERE l.key <> 'backoff' AND under ? l.key), '{}')
    || jsonb_build_object('backoff', under->'backoff' || coalesce(layer->'backoff', '{}'))
$$;

CREATE FUNCTION millrace.policy_issues(policy jsonb, longest_timeout_ms bigint) RETURNS jsonb LANGUAGE sql STABLE PARALLEL SAFE AS $$
  WITH p AS (SELECT policy->'backoff' AS b, (policy->>'maxAttempts')::numeric AS attempts, (policy->>'timeoutMs')::numeric AS timeout_ms,
    (policy->>'lifetimeMs')::numeric AS lifetime_ms, (policy->'backoff'->>'multiplier')::float8 AS multiplier)
  SELECT CASE WHEN attempts BETWEEN 1 AND 100 THEN '[]' ELSE millrace.issue('max_attempts', 'OUT_OF_RANGE', 'must be an integer from 1 to 100') END
    || CASE WHEN timeout_ms BETWEEN 1 AND longest_timeout_ms THEN '[]' ELSE millrace.issue('timeout', 'OUT_OF_RANGE', format(
      'must be greater than zero and at most %s seconds. To allow more, set queue.execution_timeout in the configuration of the workers, or defaults.timeoutMs of Millrace.open',
      trim_scale(longest_timeout_ms / 1000.0))) END
    || CASE WHEN lifetime_ms IS NULL OR lifetime_ms >= 1 THEN '[]' ELSE millrace.issue('lifetime', 'OUT_OF_RANGE', 'must be greater than zero') END
    || millrace.word_issues(b->>'strategy', 'backoff_strategy', '{CONSTANT,LINEAR,EXPONENTIAL,CUSTOM}')
    || CASE WHEN (b->>'maxDelayMs')::numeric >= (b->>'initialDelayMs')::numeric THEN '[]'
      ELSE millrace.issue('backoff_max_delay', 'OUT_OF_RANGE', 'must not be less than the initial delay') END
    || CASE WHEN multiplier >= 1 AND multiplier <= 1000 THEN '[]' ELSE millrace.issue('backoff_multiplier', 'OUT_OF_RANGE', 'must be between 1 and 1000') END
  FROM p
$$;

-- Like `json_fingerprint`, but for an object whose members are plain values or objects of plain values. Almost every job has a policy that
-- is already stored, and finding it this way takes a fifth of the time.
CREATE FUNCTION millrace.policy_hash(policy jsonb) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS $$
  WITH members AS (
    SELECT m.key, n.key AS inner_key, coalesce(n.value, m.value) AS value FROM jsonb_each(policy) m
    LEFT JOIN LATERAL jsonb_each(CASE jsonb_typeof(m.value) WHEN 'object' THEN m.value ELSE '{}' END) n ON true
  ), texts AS (
    SELECT key, bool_or(inner_key IS NOT NULL) AS is_object, string_agg(coalesce('"' || inner_key || '":', '') ||
      CASE WHEN jsonb_typeof(value) = 'number' AND value::text !~ '^-?\d{1,15}$' THEN millrace.json_number(value::numeric) ELSE value::text END,
      ',' ORDER BY inner_key COLLATE "C") AS value
    FROM members GROUP BY key
  )
  SELECT encode(sha256(convert_to('{' || string_agg('"' || key || '":' || CASE WHEN is_object THEN '{' || value || '}' ELSE value END,
    ',' ORDER BY key COLLATE "C") || '}', 'UTF8')), 'hex') FROM texts
$$;

-- The number of a policy. A sweep removes policies that were not used for 48 hours (decision 0026), so the use is recorded: by one
-- transaction an hour, while others do not wait for it. Only a use after a day without any waits, for a record that may be rolled back.
CREATE FUNCTION millrace.policy_id_of(policy jsonb) RETURNS integer LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  wanted_hash text := millrace.policy_hash(policy);
  used record;
BEGIN
  LOOP
    SELECT p.id, p.last_used_at INTO used FROM millrace.policies p WHERE p.hash = wanted_hash;
    IF used.last_used_at > now() - interval '1 hour' THEN RETURN used.id; END IF;
    IF used.last_used_at > now() - interval '1 day' THEN
      UPDATE millrace.policies p SET last_used_at = now()
      WHERE p.id = (SELECT s.id FROM millrace.policies s WHERE s.id = used.id FOR NO KEY UPDATE SKIP LOCKED);
      RETURN used.id;
    END IF;
    INSERT INTO millrace.policies AS p (hash, body) VALUES (wanted_hash, policy)
    ON CONFLICT (hash) DO UPDATE SET last_used_at = now() RETURNING p.id INTO used.id;
    IF used.id IS NOT NULL THEN RETURN used.id; END IF;
  END LOOP;
END $$;

-- The number of a limit. The granter skips a limit that a transaction has locked, so its row is written only if its numbers change, or to
-- record a use before the pruner would remove it.
CREATE FUNCTION millrace.limit_id_of(of_org uuid, of_key text, of_concurrency integer, of_rate integer, of_per_ms integer) RETURNS bigint
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  found_id bigint;
BEGIN
  SELECT l.id INTO found_id FROM millrace.limits l WHERE l.org_id = of_org AND l.key = of_key AND l.last_used_at > now() - interval '12 hours'
    AND (l.concurrency, l.rate, l.per_ms) IS NOT DISTINCT FROM (of_concurrency, of_rate, of_per_ms);
  IF found_id IS NULL THEN
    INSERT INTO millrace.limits AS l (org_id, key, concurrency, rate, per_ms) VALUES (of_org, of_key, of_concurrency, of_rate, of_per_ms)
    ON CONFLICT (org_id, key) DO UPDATE SET concurrency = excluded.concurrency, rate = excluded.rate, per_ms = excluded.per_ms, last_used_at = now()
    RETURNING l.id INTO found_id;
  END IF;
  RETURN found_id;
END $$;

-- Fills in the placeholders of the key of a limit, as src/core/limit.ts does. `source` says whose limit it is.
CREATE FUNCTION millrace.fill_limit_key(template text, payload jsonb, source text, OUT filled text, OUT issues jsonb)
LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
DECLARE
  rest text := template;
  found text[];
  part text;
  node jsonb;
BEGIN
  filled := '';
  issues := '[]';
  LOOP
    found := regexp_match(rest, '^(.*?)\{payload((?:\.[^.{}]+)+)\}');
    EXIT WHEN found IS NULL;
    node := CASE WHEN payload ? '$bytes' AND payload - '$bytes' = '{}' THEN NULL ELSE payload END;
    FOREACH part IN ARRAY string_to_array(substr(found[2], 2), '.') LOOP
      node := CASE jsonb_typeof(node) WHEN 'object' THEN node->part
        WHEN 'array' THEN CASE WHEN part ~ '^(0|[1-9]\d{0,8})$' THEN node->part::int4 WHEN part = 'length' THEN to_jsonb(jsonb_array_length(node)) END END;
    END LOOP;
    IF jsonb_typeof(node) IN ('string', 'number', 'boolean') THEN
      filled := filled || found[1] || CASE jsonb_typeof(node) WHEN 'number' THEN millrace.json_number(node::numeric) ELSE node #>> '{}' END;
    ELSE
      issues := issues || millrace.issue('payload' || found[2], 'REQUIRED',
        format('must be a string, a number or a boolean: the key of the limit of %s contains it', source));
    END IF;
    rest := substr(rest, length(found[1]) + length('{payload}') + length(found[2]) + 1);
  END LOOP;
  filled := filled || rest;
  IF issues = '[]' THEN issues := millrace.text_issues(filled, 'limit_key', 256); END IF;
END $$;

-- What a new job gets from the jobs that it depends on, as src/engine/submit/placement.ts decides. They cannot be removed until the
-- transaction ends, and nothing else about them is locked.
CREATE FUNCTION millrace.place_dependent(of_org uuid, ids uuid[], dependency_type text,
  OUT issues jsonb, OUT depth integer, OUT waits boolean, OUT most_urgent smallint, OUT seqs bigint[])
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
  ended integer;
  completed integer;
  crowded uuid[];
  missing uuid[];
BEGIN
  WITH locked AS MATERIALIZED (
    SELECT j.id, j.seq, j.state, j.depth, j.priority, CASE WHEN j.state >= 'completed' THEN 0 ELSE coalesce(c.dependents, 0) + (SELECT count(*) FROM (
      SELECT FROM millrace.dependencies d WHERE d.org_id = j.org_id AND d.depends_on_seq = j.seq AND d.job_seq > coalesce(c.counted_to, 0)
      LIMIT 100000) d) END AS dependents
    FROM millrace.jobs j LEFT JOIN millrace.dependent_counts c ON c.org_id = j.org_id AND c.seq = j.seq
    WHERE j.id = ANY (ids) AND (j.org_id = of_org) IS TRUE ORDER BY j.seq FOR KEY SHARE OF j
  )
  SELECT max(l.depth) + 1, min(l.priority), array_agg(l.seq ORDER BY array_position(ids, l.id)), count(*) FILTER (WHERE l.state >= 'completed'),
    count(*) FILTER (WHERE l.state = 'completed'), array_agg(l.id) FILTER (WHERE l.dependents >= 100000),
    ARRAY(SELECT u.id FROM unnest(ids) AS u(id) WHERE u.id NOT IN (SELECT k.id FROM locked k) LIMIT 20)
  INTO depth, most_urgent, seqs, ended, completed, crowded, missing FROM locked l;
  waits := CASE dependency_type WHEN 'AFTER_ANY' THEN ended = 0 ELSE completed < cardinality(ids) END;
  SELECT coalesce(jsonb_agg(jsonb_build_object('field', 'depends_on', 'code', i.code, 'message', i.message)), '[]') INTO issues FROM (
    SELECT 'DEPENDENCY_NOT_FOUND' AS code, format('the job %s does not exist: check the id', m) AS message FROM unnest(missing) AS m
    UNION ALL
    SELECT 'TOO_MANY_DEPENDENTS', format('at most 100000 jobs can depend on the job %s: submit one job that depends on it, and let the others depend on that one', c)
    FROM unnest(crowded) AS c
    UNION ALL
    SELECT 'DEPENDENCY_DEPTH', 'a chain of dependencies must have at most 100 levels' WHERE depth > 100) i;
END $$;

-- Raises the error. Its message begins with the code, its detail is JSON for programs.
CREATE FUNCTION millrace.refuse_submission(code text, message text, details jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION USING
    ERRCODE = CASE code WHEN 'INVALID_REQUEST' THEN 'MR001' WHEN 'DUPLICATE' THEN 'MR002' ELSE 'MR003' END,
    MESSAGE = code || ': ' || message,
    DETAIL = jsonb_build_object('code', code, 'details', details)::text,
    HINT = CASE code WHEN 'INVALID_REQUEST' THEN 'Correct the parameters named in the detail and call millrace.submit again.'
      WHEN 'DUPLICATE' THEN 'Use a new key for new work, or repeat the first request unchanged.'
      ELSE 'Use a new idempotency key; jobs are removed when their retention ends.' END;
END $$;

-- Submits a job and returns its id. docs/guides/sql.md explains the parameters. It runs with the rights of its owner, so that a role needs
-- no right on the tables.
CREATE FUNCTION millrace.submit(
  job_type text,
  payload jsonb,
  queue text DEFAULT NULL,
  priority text DEFAULT NULL,
  delay interval DEFAULT NULL,
  scheduled_at timestamptz DEFAULT NULL,
  idempotency_key text DEFAULT NULL,
  tags jsonb DEFAULT NULL,
  org text DEFAULT 'default',
  timeout interval DEFAULT NULL,
  lifetime interval DEFAULT NULL,
  max_attempts integer DEFAULT NULL,
  backoff_strategy text DEFAULT NULL,
  backoff_initial_delay interval DEFAULT NULL,
  backoff_max_delay interval DEFAULT NULL,
  backoff_multiplier double precision DEFAULT NULL,
  backoff_jitter boolean DEFAULT NULL,
  depends_on uuid[] DEFAULT NULL,
  dependency_type text DEFAULT NULL,
  correlation_id text DEFAULT NULL,
  callback_url text DEFAULT NULL,
  limit_key text DEFAULT NULL,
  limit_concurrency integer DEFAULT NULL,
  limit_rate integer DEFAULT NULL,
  limit_per interval DEFAULT NULL,
  category text DEFAULT NULL,
  project_id uuid DEFAULT NULL,
  traceparent text DEFAULT NULL
) RETURNS uuid LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
#variable_conflict use_column
DECLARE
  is_bytes CONSTANT boolean := coalesce(CASE WHEN jsonb_typeof(submit.payload) = 'object' THEN submit.payload ? '$bytes' AND submit.payload - '$bytes' = '{}' END, false);
  uuid_form CONSTANT text := '^[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$';
  standing CONSTANT text[] := '{q:critical,q:default,q:notifications,q:planning,q:exports,q:maintenance}';
  priorities CONSTANT text[] := '{CRITICAL,HIGH,NORMAL,LOW,BULK}';
  now_at CONSTANT timestamptz := millrace.clock();
  issues jsonb := '[]';
  type_row record;
  queue_limit jsonb;
  queue_exists boolean;
  owner uuid;
  in_queue text := coalesce(submit.queue, 'q:default');
  priority_name text;
  layer jsonb := '{}';
  backoff_layer jsonb;
  base jsonb;
  policy jsonb;
  policy_issues jsonb := '[]';
  lifetime_ms bigint;
  beyond text;
  delay_ms bigint := millrace.duration_ms(submit.delay);
  due timestamptz := date_trunc('milliseconds', submit.scheduled_at);
  wanted uuid[];
  own_limit jsonb;
  job_limit jsonb;
  filled record;
  dependency_depth integer := 0;
  has_to_wait boolean := false;
  inherited smallint;
  dependency_seqs bigint[];
  request_hash text;
  key_scope text;
  keyed record;
  job_seq bigint;
  job_id uuid;
  job_limit_id bigint;
  record_no bigint;
  urgency smallint;
  starts_at timestamptz;
  ends_at timestamptz;
  born_as millrace.job_state;
BEGIN
  -- The type. A stored registration counts as in src/engine/catalogue.ts.
  SELECT t.defaults, t.profile, coalesce(t.max_payload_bytes, 1048576) AS max_payload_bytes, t.custom_backoff AND EXISTS (
    SELECT FROM millrace.workers w WHERE w.stopped_at IS NULL AND w.beat_at > millrace.clock() - interval '30 seconds' AND t.name = ANY (w.types)) AS has_custom_backoff
  INTO type_row FROM millrace.job_types t WHERE t.name = submit.job_type;
  IF submit.job_type IS NULL THEN issues := issues || millrace.issue('job_type', 'REQUIRED', 'is required'); END IF;
  IF starts_with(submit.job_type, 'forgerun.') THEN
    issues := issues || millrace.issue('job_type', 'RESERVED_TYPE', 'must not begin with forgerun.: that prefix is reserved for the execution API');
  END IF;
  IF starts_with(submit.job_type, 'webhook.deliver') THEN
    issues := issues || millrace.issue('job_type', 'RESERVED_TYPE', 'must not begin with webhook.deliver: that prefix is reserved for webhook deliveries');
  END IF;
  issues := issues || millrace.reserved_name_issues(submit.job_type, 'job_type') || millrace.text_issues(submit.job_type, 'job_type', 100, true)
    || millrace.payload_issues(submit.payload, coalesce(type_row.max_payload_bytes, 1048576));

  SELECT o.id INTO owner FROM millrace.orgs o WHERE o.id <> '00000000-0000-4000-8000-000000000001'
    AND (o.slug = coalesce(submit.org, 'default') OR o.id::text = lower(submit.org))
  ORDER BY o.slug = coalesce(submit.org, 'default') DESC LIMIT 1;
  IF owner IS NULL THEN
    issues := issues || millrace.issue('org', 'UNKNOWN_ORG', 'must be the name or the id of an org. "millrace orgs list" shows them');
  END IF;

  -- Where and when.
  IF in_queue !~ '^[a-z0-9:_.-]{1,100}$' THEN
    issues := issues || millrace.issue('queue', 'INVALID_VALUE', 'must be 1 to 100 characters from a-z, 0-9 and : _ . -');
  ELSIF millrace.reserved_name_issues(in_queue, 'queue') <> '[]' THEN
    issues := issues || millrace.reserved_name_issues(in_queue, 'queue');
  ELSIF in_queue = 'q:deadletter' THEN
    issues := issues || millrace.issue('queue', 'INVALID_VALUE', 'must not be q:deadletter: only failed jobs enter that queue');
  ELSE
    SELECT q.job_limit, true INTO queue_limit, queue_exists FROM millrace.queues q WHERE q.name = in_queue;
    IF queue_exists IS NULL AND in_queue <> ALL (standing) THEN
      issues := issues || millrace.issue('queue', 'UNKNOWN_QUEUE', 'must be one of ' || (SELECT string_agg(n.name, ', ' ORDER BY n.name) FROM (
        SELECT unnest(standing) AS name UNION (SELECT q.name FROM millrace.queues q ORDER BY q.name LIMIT 20)) n)
        || '; an operator can add a queue with a section [queues."name"] in the configuration, or with queues.configure');
    END IF;
  END IF;
  IF issues @> '[{"field": "queue"}]' THEN in_queue := 'q:default'; END IF;
  issues := issues || millrace.word_issues(submit.priority, 'priority', priorities) || millrace.duration_issues(submit.delay, 'delay');
  priority_name := coalesce(submit.priority, CASE in_queue WHEN 'q:critical' THEN 'CRITICAL' ELSE 'NORMAL' END);
  IF NOT isfinite(due) OR due >= '10000-01-01 00:00:00+00' OR due < '0001-01-01 00:00:00+00' THEN
    issues := issues || millrace.issue('scheduled_at', 'INVALID_TIMESTAMP', 'must be a time in the years 1 to 9999');
    due := NULL;
  END IF;

  -- The policy: of the call, else of the type, else of the process that registered the type.
  base := coalesce(type_row.profile, millrace.default_policy());
  policy := CASE WHEN type_row.defaults <> '{}' THEN millrace.overlay_policy(base, type_row.defaults) ELSE base END;
  IF num_nonnulls(submit.timeout, submit.lifetime, submit.max_attempts, backoff_strategy, backoff_initial_delay, backoff_max_delay, backoff_multiplier, backoff_jitter) > 0 THEN
    issues := issues || millrace.duration_issues(submit.timeout, 'timeout') || millrace.duration_issues(submit.lifetime, 'lifetime')
      || millrace.duration_issues(backoff_initial_delay, 'backoff_initial_delay') || millrace.duration_issues(backoff_max_delay, 'backoff_max_delay')
      || millrace.word_issues(backoff_strategy, 'backoff_strategy', '{CONSTANT,LINEAR,EXPONENTIAL,CUSTOM}');
    backoff_layer := jsonb_strip_nulls(jsonb_build_object(
      'strategy', CASE WHEN backoff_strategy IN ('CONSTANT', 'LINEAR', 'EXPONENTIAL', 'CUSTOM') THEN backoff_strategy END,
      'initialDelayMs', millrace.duration_ms(backoff_initial_delay), 'maxDelayMs', millrace.duration_ms(backoff_max_delay),
      'multiplier', CASE WHEN backoff_multiplier IN ('NaN', 'Infinity', '-Infinity') THEN 0 ELSE backoff_multiplier END, 'jitter', backoff_jitter));
    layer := jsonb_strip_nulls(jsonb_build_object('timeoutMs', millrace.duration_ms(submit.timeout), 'lifetimeMs', millrace.duration_ms(submit.lifetime),
      'maxAttempts', submit.max_attempts, 'backoff', CASE WHEN backoff_layer <> '{}' THEN backoff_layer END));
    policy := millrace.overlay_policy(policy, layer);
    policy_issues := millrace.policy_issues(policy, (base->>'timeoutMs')::int8);
    issues := issues || policy_issues;
  END IF;
  IF policy_issues = '[]' AND policy->'backoff'->>'strategy' = 'CUSTOM' AND coalesce(type_row.has_custom_backoff, false) IS FALSE
    AND NOT (backoff_layer->>'strategy' IS NULL AND coalesce(type_row.defaults->'backoff'->>'strategy' = 'CUSTOM', false)) THEN
    issues := issues || millrace.issue('backoff_strategy', 'CUSTOM_BACKOFF_UNKNOWN', 'cannot be CUSTOM: no live worker of this job type supplies a backoff function');
  END IF;
  lifetime_ms := (policy->>'lifetimeMs')::int8;
  IF policy_issues = '[]' AND (delay_ms IS NOT NULL OR due IS NOT NULL) THEN
    IF delay_ms IS NOT NULL AND due IS NOT NULL THEN
      issues := issues || millrace.issue('delay', 'CONFLICTING_MEMBERS', 'and scheduled_at cannot be combined: use one of them');
    END IF;
    beyond := format('is not within the lifetime of the job, %s from submission: the job would end before it starts. Submit it with a longer lifetime',
      make_interval(secs => lifetime_ms / 1000.0));
    IF delay_ms >= lifetime_ms THEN issues := issues || millrace.issue('delay', 'BEYOND_LIFETIME', beyond); END IF;
    IF extract(epoch FROM due - now_at) * 1000 >= lifetime_ms THEN issues := issues || millrace.issue('scheduled_at', 'BEYOND_LIFETIME', beyond); END IF;
  END IF;

  -- The rest.
  issues := issues || millrace.text_issues(submit.idempotency_key, 'idempotency_key', 256) || millrace.text_issues(submit.correlation_id, 'correlation_id', 256)
    || millrace.traceparent_issues(submit.traceparent) || millrace.word_issues(submit.dependency_type, 'dependency_type', '{AFTER,AFTER_ANY,CHAIN}');
  IF submit.tags IS NOT NULL THEN issues := issues || millrace.tag_issues(submit.tags); END IF;
  IF submit.callback_url IS NOT NULL THEN issues := issues || millrace.url_issues(submit.callback_url, 'callback_url'); END IF;
  IF submit.category !~ '^[a-z0-9:_.-]{1,100}$' THEN
    issues := issues || millrace.issue('category', 'INVALID_VALUE', 'must be 1 to 100 characters from a-z, 0-9 and : _ . -');
  END IF;
  IF submit.project_id::text !~ uuid_form THEN issues := issues || millrace.issue('project_id', 'INVALID_ID', 'must be a UUID'); END IF;
  IF submit.depends_on <> '{}' THEN
    SELECT array_agg(d.dependency ORDER BY d.place) INTO wanted
    FROM (SELECT u.dependency, min(u.place) AS place FROM unnest(submit.depends_on) WITH ORDINALITY AS u(dependency, place) GROUP BY u.dependency) d;
    SELECT issues || coalesce(jsonb_agg(i.issue->0), '[]') INTO issues FROM (
      SELECT millrace.issue(format('depends_on[%s]', u.place - 1), 'INVALID_ID', 'must be a job id') AS issue
      FROM unnest(submit.depends_on) WITH ORDINALITY AS u(dependency, place) WHERE (u.dependency::text ~ uuid_form) IS NOT TRUE LIMIT 20) i;
    IF cardinality(wanted) > 1000 THEN
      issues := issues || jsonb '[{"field": "depends_on", "code": "DEPENDENCY_BREADTH", "message": "a job must have at most 1000 dependencies"}]';
    END IF;
  END IF;
  IF num_nonnulls(submit.limit_key, limit_concurrency, limit_rate, limit_per) > 0 THEN
    own_limit := jsonb_build_object('key', submit.limit_key, 'concurrency', limit_concurrency, 'rate', limit_rate, 'perMs', millrace.duration_ms(limit_per));
    issues := issues || millrace.text_issues(submit.limit_key, 'limit_key', 256) || millrace.duration_issues(limit_per, 'limit_per')
      || CASE WHEN submit.limit_key IS NULL THEN millrace.issue('limit_key', 'REQUIRED', 'is required: jobs with the same key share the limit') ELSE '[]' END
      || CASE WHEN limit_concurrency NOT BETWEEN 1 AND 10000 THEN millrace.issue('limit_concurrency', 'OUT_OF_RANGE', 'must be an integer from 1 to 10000') ELSE '[]' END
      || CASE WHEN limit_rate NOT BETWEEN 1 AND 10000 THEN millrace.issue('limit_rate', 'OUT_OF_RANGE', 'must be an integer from 1 to 10000') ELSE '[]' END
      || CASE WHEN millrace.duration_ms(limit_per) NOT BETWEEN 1000 AND 86400000 THEN millrace.issue('limit_per', 'OUT_OF_RANGE', 'must be from one second to 24 hours') ELSE '[]' END
      || CASE WHEN limit_concurrency IS NULL AND limit_rate IS NULL THEN
        millrace.issue('limit', 'REQUIRED', 'must have limit_concurrency, or limit_rate and limit_per, or all three') ELSE '[]' END
      || CASE WHEN limit_rate IS NOT NULL AND limit_per IS NULL THEN
        millrace.issue('limit_per', 'REQUIRED', 'is required with limit_rate: the time within which so many jobs may start') ELSE '[]' END
      || CASE WHEN limit_rate IS NULL AND limit_per IS NOT NULL THEN
        millrace.issue('limit_rate', 'REQUIRED', 'is required with limit_per: how many jobs may start within that time') ELSE '[]' END;
  ELSIF issues = '[]' THEN
    job_limit := coalesce(type_row.defaults->'limit', queue_limit);
    IF strpos(job_limit->>'key', '{') > 0 THEN
      filled := millrace.fill_limit_key(job_limit->>'key', submit.payload,
        CASE WHEN type_row.defaults ? 'limit' THEN 'type ' || submit.job_type ELSE 'queue ' || in_queue END);
      issues := issues || filled.issues;
      job_limit := jsonb_set(job_limit, '{key}', to_jsonb(filled.filled));
    END IF;
  END IF;
  job_limit := coalesce(own_limit, job_limit);
  IF issues = '[]' AND wanted IS NOT NULL THEN
    SELECT p.issues, p.depth, p.waits, p.most_urgent, p.seqs INTO issues, dependency_depth, has_to_wait, inherited, dependency_seqs
    FROM millrace.place_dependent(owner, wanted, coalesce(submit.dependency_type, 'AFTER')) p;
  END IF;
  IF issues <> '[]' THEN
    PERFORM millrace.refuse_submission('INVALID_REQUEST', format('The submission is not valid: %s%s.', issues->0->>'message',
      CASE WHEN jsonb_array_length(issues) > 1 THEN format(' (and %s more)', jsonb_array_length(issues) - 1) ELSE '' END),
      (SELECT jsonb_agg(i.issue ORDER BY i.place) FROM jsonb_array_elements(issues) WITH ORDINALITY AS i(issue, place) WHERE i.place <= 20));
  END IF;

  -- The first 24 bits are the same for some thousands of jobs in a row (decision 0015). Without the key nobody can compute them.
  job_seq := nextval('millrace.job_seq');
  job_id := (encode(substr(sha256((SELECT k.secret FROM millrace.sealing_key k) || int8send(job_seq >> 12)), 1, 3), 'hex') || substr(gen_random_uuid()::text, 7))::uuid;

  -- Of two transactions with the same key, the second waits here for the first. Shared statements leave out announced keys.
  IF submit.idempotency_key IS NOT NULL THEN
    key_scope := submit.job_type || coalesce(chr(10) || submit.project_id::text, '');
    request_hash := millrace.json_fingerprint(jsonb_build_object('type', submit.job_type, 'queue', in_queue, 'priority', priority_name, 'delayMs', delay_ms,
      'scheduledAt', to_char(due AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), 'correlationId', submit.correlation_id, 'tags', submit.tags,
      'dependsOn', coalesce(to_jsonb(wanted), '[]'), 'dependencyType', coalesce(submit.dependency_type, 'AFTER'), 'callbackUrl', submit.callback_url,
      'payload', CASE WHEN is_bytes THEN jsonb_build_object('$bytes', translate(encode(decode(submit.payload->>'$bytes', 'base64'), 'base64'), chr(10), ''))
        ELSE submit.payload END)
      || CASE WHEN layer <> '{}' THEN jsonb_build_object('layer', layer) ELSE '{}' END
      || CASE WHEN submit.category IS NOT NULL THEN jsonb_build_object('category', submit.category) ELSE '{}' END
      || CASE WHEN own_limit IS NOT NULL THEN jsonb_build_object('limit', own_limit) ELSE '{}' END);
    PERFORM pg_advisory_xact_lock_shared(1298746178, (uuid_hash(owner) << 6) | (hashtext(key_scope || chr(10) || submit.idempotency_key) & 63));
    INSERT INTO millrace.idempotency_keys AS k (org_id, scope, key, job_id, fingerprint, expires_at)
    VALUES (owner, key_scope, submit.idempotency_key, job_id, request_hash, now_at + (policy->>'keyWindowMs')::float8 * interval '1 ms')
    ON CONFLICT (org_id, scope, key) DO UPDATE SET
      job_id      = CASE WHEN k.expires_at <= now_at THEN excluded.job_id ELSE k.job_id END,
      fingerprint = CASE WHEN k.expires_at <= now_at THEN excluded.fingerprint ELSE k.fingerprint END,
      expires_at  = CASE WHEN k.expires_at <= now_at THEN excluded.expires_at ELSE k.expires_at END
    RETURNING k.job_id, k.fingerprint INTO keyed;
    IF keyed.job_id <> job_id AND keyed.fingerprint <> request_hash THEN
      PERFORM millrace.refuse_submission('DUPLICATE', format('The idempotency key was used for a different request, which became job %s.', keyed.job_id),
        millrace.issue('idempotency_key', 'DUPLICATE', format('was used for a different request, which became job %s', keyed.job_id)));
    ELSIF keyed.job_id <> job_id THEN
      IF NOT EXISTS (SELECT FROM millrace.jobs j WHERE j.id = keyed.job_id) THEN
        PERFORM millrace.refuse_submission('NOT_FOUND', format('Job %s, which used the idempotency key, no longer exists.', keyed.job_id), '[]');
      END IF;
      RETURN keyed.job_id;
    END IF;
  END IF;

  IF queue_exists IS NULL THEN
    INSERT INTO millrace.queues (name) VALUES (in_queue) ON CONFLICT DO NOTHING;
    PERFORM pg_notify('millrace', 'sql catalogue');
  END IF;
  IF submit.callback_url IS NOT NULL THEN
    INSERT INTO millrace.callback_orgs (org_id, secret, created_at)
    SELECT owner, substr(sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())), 1, 24), now_at
    WHERE NOT EXISTS (SELECT FROM millrace.callback_orgs c WHERE c.org_id = owner) ON CONFLICT DO NOTHING;
  END IF;
  IF job_limit IS NOT NULL THEN
    job_limit_id := millrace.limit_id_of(owner, job_limit->>'key', (job_limit->>'concurrency')::int4, (job_limit->>'rate')::int4, (job_limit->>'perMs')::int4);
  END IF;

  record_no := nextval('millrace.record_id');
  urgency := array_position(priorities, priority_name) - 1;
  starts_at := coalesce(due, now_at + delay_ms * interval '1 ms', now_at);
  ends_at := now_at + lifetime_ms * interval '1 ms';
  born_as := CASE WHEN has_to_wait THEN 'pending' WHEN starts_at > now_at THEN 'delayed' ELSE 'scheduled' END;
  INSERT INTO millrace.jobs (seq, org_id, id, created_at, updated_at, run_at, scheduled_at, lifetime_deadline, order_key, policy_id, state, priority,
    requested_priority, max_attempts, event_count, record_ids, queue, job_type, idempotency_key, payload, payload_bytes, depth, dependency_type,
    correlation_id, callback_url, tags, limit_id, category, project_id, traceparent)
  VALUES (job_seq, owner, job_id, now_at, now_at, starts_at, CASE WHEN born_as = 'scheduled' THEN now_at END, ends_at, job_seq, millrace.policy_id_of(policy),
    born_as, least(urgency, inherited), urgency, (policy->>'maxAttempts')::int2, 1, ARRAY[record_no], in_queue, submit.job_type, submit.idempotency_key,
    CASE WHEN NOT is_bytes THEN submit.payload::json END, CASE WHEN is_bytes THEN decode(submit.payload->>'$bytes', 'base64') END, dependency_depth,
    CASE WHEN wanted IS NOT NULL THEN coalesce(submit.dependency_type, 'AFTER') END, submit.correlation_id, submit.callback_url, submit.tags,
    job_limit_id, submit.category, submit.project_id, submit.traceparent);
  INSERT INTO millrace.records (id, at, org_id, from_state, to_state, priority, is_tagged, job_type, reason, seqs)
  VALUES (record_no, now_at, owner, CASE WHEN born_as <> 'pending' THEN 'pending'::millrace.job_state END, born_as, least(urgency, inherited),
    submit.tags IS NOT NULL, submit.job_type, 'submitted', ARRAY[job_seq]);
  IF wanted IS NOT NULL THEN
    INSERT INTO millrace.dependencies (org_id, job_seq, depends_on_seq) SELECT owner, job_seq, d FROM unnest(dependency_seqs) AS d;
  END IF;

  -- Its token. PostgreSQL sends a notification when the transaction commits, and equal ones of a transaction once.
  IF born_as = 'pending' THEN
    INSERT INTO millrace.waiting (dies_at, seq, org_id) VALUES (ends_at, job_seq, owner);
    INSERT INTO millrace.releases (org_id, seq, is_new) VALUES (owner, job_seq, true);
    PERFORM pg_notify('millrace', 'sql releases');
  ELSIF born_as = 'delayed' THEN
    INSERT INTO millrace.timers (run_at, dies_at, seq, org_id) VALUES (starts_at, ends_at, job_seq, owner);
    PERFORM pg_notify('millrace', 'sql timers');
  ELSIF job_limit_id IS NOT NULL THEN
    INSERT INTO millrace.limited (limit_id, order_key, dies_at, org_id, priority, queue, job_type, seq)
    VALUES (job_limit_id, job_seq, ends_at, owner, least(urgency, inherited), in_queue, submit.job_type, job_seq);
    PERFORM pg_notify('millrace', 'sql limits=' || job_limit_id);
  ELSE
    INSERT INTO millrace.ready (order_key, dies_at, org_id, priority, queue, job_type, seqs)
    VALUES (job_seq, ends_at, owner, least(urgency, inherited), in_queue, submit.job_type, ARRAY[job_seq]);
    PERFORM pg_notify('millrace', 'sql ready');
  END IF;
  RETURN job_id;
END $$;

-- Only the owner may call them, until the owner grants it to a role: GRANT EXECUTE ON FUNCTION millrace.submit TO role.
REVOKE ALL ON FUNCTION millrace.submit FROM PUBLIC;
