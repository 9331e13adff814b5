import type { TestLedger } from './fixture.ts';

/** Leaves the default partition only, as in a database that no engine has opened. */
export async function dropPartitions({ db }: TestLedger): Promise<void> {
  const { rows } = await db.api.query(`SELECT inhrelid::regclass AS name FROM pg_inherits
    WHERE inhparent = 'millrace.records'::regclass AND inhrelid <> 'millrace.records_default'::regclass`);
  for (const { name } of rows) await db.api.query(`DROP TABLE ${name}`);
}
