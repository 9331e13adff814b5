-- Purpose: row-level security for the tables that came after it (decision 0064): audit trail, dead letters, operations, erasures, artifacts.
-- Locks: ACCESS EXCLUSIVE on these tables, for a moment. Breaking: no.
DO $$
DECLARE
  found text;
BEGIN
  FOR found IN
    SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'org_id' AND NOT a.attisdropped
    WHERE c.relnamespace = 'millrace'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
      AND NOT EXISTS (SELECT FROM millrace.reader_tables t WHERE t.name = c.relname) ORDER BY c.relname
  LOOP
    PERFORM millrace.protect_by_org(found);
  END LOOP;
END $$;

-- An item belongs to the org of its operation, which the policy of operations decides.
ALTER TABLE millrace.operation_items ENABLE ROW LEVEL SECURITY;
CREATE POLICY of_org ON millrace.operation_items USING ((SELECT current_user) <> 'millrace_reader'
  OR EXISTS (SELECT FROM millrace.operations o WHERE o.id = operation_id));
SELECT millrace.share_with_reader('operation_items', 'audit_state');
