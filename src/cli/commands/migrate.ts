import { migrate as migrateLedger } from '../../ledger/driver/migrate.ts';
import { defineCommand, EXIT, type Invocation } from '../command.ts';
import { withDatabase } from '../connection.ts';

export const migrate = defineCommand({
  name: 'migrate',
  summary: 'bring the schema of the database up to date',
  takes: '',
  minArgs: 0,
  maxArgs: 0,
  options: {},
  details: 'Several processes may do it at once: one does the work. A schema made by a newer version is refused.',
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
