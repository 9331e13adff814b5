import { migrate as migrateLedger } from '../../ledger/driver/migrate.ts';
import { defineCommand, EXIT, type Invocation } from '../command.ts';
import { withDatabase } from '../connection.ts';

export const migrate = defineCommand({
  name: 'migrate',
  summary: 'bring the schema of the database up to date',
  details: 'Several processes may run it at the same time; one of them migrates. It refuses a schema of a newer version.',
  examples: ['millrace migrate', 'millrace migrate --database postgres://user@host/db'],
  run,
});

async function run(invocation: Invocation): Promise<number> {
  const report = await withDatabase(invocation, (database) => migrateLedger(database.maintenance));
  invocation.out.answer(report, () => {
    if (report.applied.length === 0) return [`The schema is up to date (version ${report.version}).`];
    return [...report.applied.map((name) => `applied ${name}`), `The schema is at version ${report.version}.`];
  });
  return EXIT.ok;
}
