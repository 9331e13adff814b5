import { randomUUID } from 'node:crypto';
import type { Database } from '../../src/ledger/driver/database.ts';

/** Answers the id of a project of the org: a new one, unless the id is told. */
export async function newProject({ api }: Pick<Database, 'api'>, orgId: string, id: string = randomUUID()): Promise<string> {
  await api.query(
    'INSERT INTO millrace.projects (org_id, id, name, created_at) VALUES ($1, $2, $3, millrace.clock()) ON CONFLICT DO NOTHING',
    [orgId, id, id],
  );
  return id;
}
