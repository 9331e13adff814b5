import type { Engine } from '../engine/engine.ts';
import { DEFAULT_ORG_ID } from '../ledger/access/orgs.ts';
import { type Database, openDatabase } from '../ledger/driver/database.ts';
import { checkSchema, migrate } from '../ledger/driver/migrate.ts';
import { openPostgres, type PostgresHandle } from '../postgres/open.ts';
import { createEngine } from '../services/jobs/create-engine.ts';
import { programTraces } from '../services/jobs/program-traces.ts';
import { openArtifacts } from './objects-option.ts';
import { type OpenOptions, readOptions } from './open-options.ts';

export type OpenParts = { engine: Engine; postgres: PostgresHandle; database: Database; orgId: string };

/** Opens what an instance needs. If a step fails, closes what the steps before it opened. */
export async function openParts(options: OpenOptions): Promise<OpenParts> {
  const engineOptions = readOptions(options);
  const postgres = await openPostgres({
    databaseUrl: options.database,
    home: options.home,
    onNotice: options.onNotice,
  });
  const { api: apiPool, workers: workerPool } = options.pools ?? {};
  const database = openDatabase({ url: postgres.url, apiPool, workerPool, sharesSessions: true });
  try {
    if (options.migrate === false) await checkSchema(database.maintenance);
    else await migrate(database.maintenance);
    const engine = createEngine({ database, ...engineOptions, ...(await programTraces()) });
    engine.artifacts = await openArtifacts(options.objects, postgres.home);
    await engine.open();
    return { engine, postgres, database, orgId: options.org ?? DEFAULT_ORG_ID };
  } catch (error) {
    await database.close();
    await postgres.close();
    throw error;
  }
}
