import type { Database } from '../ledger/driver/database.ts';
import { checkSchema, migrate } from '../ledger/driver/migrate.ts';
import type { CommonValues } from './command.ts';
import { dataFolder, withDatabase } from './connection.ts';
import type { Output } from './output.ts';

/** The ledger with the schema this program knows: an embedded one is brought up to date, a shared one is checked. */
export function withLedger<T>(
  invocation: { values: CommonValues; out: Output },
  work: (database: Database) => Promise<T>,
): Promise<T> {
  return withDatabase(invocation, async (database) => {
    if (dataFolder(invocation.values) === null) await checkSchema(database.maintenance);
    else await migrate(database.maintenance);
    return work(database);
  });
}
