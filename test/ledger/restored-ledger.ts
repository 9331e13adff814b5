/** Restores a ledger into a fresh cluster as a dump does: the rows keep their transaction numbers, the cluster counts from its own. */
import { randomBytes } from 'node:crypto';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { openDatabase } from '../../src/ledger/driver/database.ts';
import { migrate } from '../../src/ledger/driver/migrate.ts';
import { ensurePartitions } from '../../src/ledger/history/record-partitions.ts';
import { PolicyCache } from '../../src/ledger/jobs/intern-policies.ts';
import { openPostgres } from '../../src/postgres/open.ts';
import { TestLedger } from './fixture.ts';
import { makePatient } from './patient.ts';

const TABLES = `SELECT c.relname AS name FROM pg_class c WHERE c.relnamespace = 'millrace'::regnamespace AND c.relkind IN ('r', 'p')
  AND NOT c.relispartition AND c.relname <> 'migrations' ORDER BY 1`;
const SEQUENCES = `SELECT c.oid::regclass::text AS name FROM pg_class c WHERE c.relnamespace = 'millrace'::regnamespace AND c.relkind = 'S'`;

export type Restored = { ledger: TestLedger; close(): Promise<void> };

/** A cluster with the schema and no rows of its own, for several restores one after the other. */
export async function restoreInto(source: TestLedger): Promise<Restored> {
  const home = join(tmpdir(), `restored-${randomBytes(4).toString('hex')}`);
  const server = await openPostgres({ databaseUrl: '', home, onNotice: () => {} });
  const ledger = new TestLedger();
  ledger.db = openDatabase({ url: server.url });
  makePatient(ledger.db);
  ledger.policies = new PolicyCache(ledger.db.api);
  await migrate(ledger.db.maintenance);
  await ensurePartitions(ledger.db.maintenance);
  await copyRows(source, server.url);
  return {
    ledger,
    async close() {
      await ledger.db.close();
      await server.close();
    },
  };
}

/** A dump leaves out the columns that the database computes. */
const COLUMNS = `SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) AS columns FROM pg_catalog.pg_attribute
  WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''`;

async function copyRows(source: TestLedger, url: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  // As a dump: no trigger and no foreign key looks at the rows.
  await client.query(`SET session_replication_role = replica`);
  const { rows: tables } = await client.query(TABLES);
  await client.query(`TRUNCATE ${tables.map(({ name }) => `millrace.${name}`).join(', ')}`);
  for (const { name } of tables) {
    const { rows } = await source.db.maintenance.query(`SELECT t::text AS row FROM millrace.${name} t`);
    const [{ columns }] = (await client.query(COLUMNS, [`millrace.${name}`])).rows;
    const stored = `SELECT (u.r::millrace.${name}).* FROM unnest($1::text[]) AS u(r)`;
    const text = `INSERT INTO millrace.${name} (${columns}) OVERRIDING SYSTEM VALUE SELECT ${columns} FROM (${stored}) s`;
    await client.query(text, [rows.map(({ row }) => row)]);
  }
  for (const { name } of (await client.query(SEQUENCES)).rows) {
    const { rows } = await source.db.maintenance.query(`SELECT last_value, is_called FROM ${name}`);
    await client.query('SELECT setval($1, $2, $3)', [name, rows[0].last_value, rows[0].is_called]);
  }
  await client.end();
}
