/** Deletes orgs as the maintenance task does, without its schedule. */
import type { Engine } from '../../src/engine/engine.ts';
import { projectAudit } from '../../src/ledger/audit/project-audit.ts';
import type { Database } from '../../src/ledger/driver/database.ts';
import { type ErasureParts, eraseOrgs } from '../../src/services/maintenance/erase-orgs.ts';
import { until } from '../until.ts';

type Row = Record<string, unknown>;

/** What an operator's request leaves behind. */
export async function askToDelete({ api }: Database, orgId: string): Promise<void> {
  await api.query(`UPDATE millrace.orgs SET deleting_at = millrace.clock(), deleting_by = 'user:operator' WHERE id = $1`, [orgId]);
}

export async function erasureOf({ api }: Database, orgId: string): Promise<Row | undefined> {
  return (await api.query('SELECT * FROM millrace.org_erasures WHERE org_id = $1', [orgId])).rows[0];
}

/** Handlers get no more time to stop. */
export async function endGrace({ api }: Database, orgId: string): Promise<void> {
  await api.query(`UPDATE millrace.org_erasures SET started_at = started_at - interval '1 minute' WHERE org_id = $1`, [orgId]);
}

/** One step for each org, even if the org was put off. */
export async function step(engine: Engine, objects: ErasureParts['objects'] = []): Promise<number> {
  await engine.database.api.query(`UPDATE millrace.org_erasures SET next_at = millrace.clock() WHERE org_id IN (
    SELECT org_id FROM millrace.org_erasures WHERE ended_at IS NULL FOR UPDATE SKIP LOCKED)`);
  await projectAudit(engine.database.maintenance, 'governed');
  return (await eraseOrgs({ engine, objects })).removed;
}

export const isErased = async (database: Database, orgId: string): Promise<boolean> =>
  ((await erasureOf(database, orgId))?.ended_at ?? null) !== null;

export async function erase(engine: Engine, orgId: string, objects: ErasureParts['objects'] = []): Promise<void> {
  await until('the org is erased', async () => {
    await step(engine, objects);
    return isErased(engine.database, orgId);
  });
}

/** The tables that have rows of the org, with their number. */
export async function rowsOf({ api }: Database, orgId: string): Promise<Map<string, number>> {
  const { rows: tables } =
    await api.query(`SELECT c.relname AS name FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'org_id'
    WHERE c.relnamespace = 'millrace'::regnamespace AND c.relkind = 'r' AND NOT a.attisdropped ORDER BY 1`);
  const counts = new Map<string, number>();
  for (const { name } of tables) {
    // A loop moves actions to the trail.
    if (name === 'audit_chains') continue;
    const shown = name === 'audit_rows' ? 'audit_actions' : name;
    const { rows } = await api.query(`SELECT count(*)::int4 AS n FROM millrace."${name}" WHERE org_id = $1`, [orgId]);
    if (rows[0].n > 0) counts.set(shown, rows[0].n + (counts.get(shown) ?? 0));
  }
  return counts;
}
