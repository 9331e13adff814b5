import { readdirSync, readFileSync } from 'node:fs';
import type pg from 'pg';
import { AppError } from '../../core/errors.ts';
import { MIGRATION_LOCK, waitForLock } from './advisory-locks.ts';
import { recogniseRestore } from './cluster.ts';
import { inTransaction } from './database.ts';
import { prepareReader } from './reader-role.ts';

export type Migration = { version: number; name: string; sql: string };
export type MigrationReport = { version: number; applied: string[] };

const FOLDER = new URL('../migrations/', import.meta.url);

function readMigrations(): Migration[] {
  return readdirSync(FOLDER)
    .filter((file) => file.endsWith('.sql'))
    .sort()
    .map((file) => ({
      version: Number.parseInt(file, 10),
      name: file.replace(/\.sql$/, ''),
      sql: readFileSync(new URL(file, FOLDER), 'utf8'),
    }));
}

/** Migrates the schema to this program's version. Several processes may call it at the same time, and one of them migrates. */
export async function migrate(pool: pg.Pool, migrations: readonly Migration[] = readMigrations()): Promise<MigrationReport> {
  const report = await applyMissing(pool, migrations);
  await afterRestore(pool);
  await prepareReader(pool);
  return report;
}

/** A restored ledger must not be written to before its transactions have numbers above the old ones. */
async function afterRestore(pool: pg.Pool): Promise<void> {
  const found = await pool.query(`SELECT to_regclass('millrace.cluster') IS NOT NULL AS there`);
  if (found.rows[0]?.there) await recogniseRestore(pool);
}

async function applyMissing(pool: pg.Pool, migrations: readonly Migration[]): Promise<MigrationReport> {
  const known = migrations.at(-1)?.version ?? 0;
  if ((await schemaVersion(pool)) === known) return { version: known, applied: [] };
  return inTransaction(pool, async (client) => {
    await client.query(`SELECT ${waitForLock(MIGRATION_LOCK)}`);
    await client.query('CREATE SCHEMA IF NOT EXISTS millrace');
    await client.query(`CREATE TABLE IF NOT EXISTS millrace.migrations
      (version integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())`);
    const { rows } = await client.query('SELECT coalesce(max(version), 0) AS version FROM millrace.migrations');
    const current = Number(rows[0]?.version);
    refuseNewer(current, known);
    const pending = migrations.filter((migration) => migration.version > current);
    for (const migration of pending) await apply(client, migration);
    return { version: known, applied: pending.map((migration) => migration.name) };
  });
}

async function apply(client: pg.PoolClient, migration: Migration): Promise<void> {
  try {
    await client.query(migration.sql);
  } catch (cause) {
    throw new AppError('MIGRATION_FAILED', { message: `Migration ${migration.name} could not be applied.`, cause });
  }
  await client.query('INSERT INTO millrace.migrations (version, name) VALUES ($1, $2)', [migration.version, migration.name]);
}

/** Refuses a schema that a newer program created, because an old process must not guess what new columns mean. */
export async function checkSchema(pool: pg.Pool, migrations: readonly Migration[] = readMigrations()): Promise<void> {
  const known = migrations.at(-1)?.version ?? 0;
  const current = await schemaVersion(pool);
  refuseNewer(current, known);
  if (current < known) {
    throw new AppError('SCHEMA_TOO_OLD', {
      message: `The database is at schema version ${current}, this program needs ${known}. Run "millrace migrate".`,
    });
  }
  await afterRestore(pool);
  await prepareReader(pool);
}

function refuseNewer(current: number, known: number): void {
  if (current <= known) return;
  throw new AppError('SCHEMA_TOO_NEW', {
    message: `The database is at schema version ${current}, this program knows ${known}. A newer Millrace has migrated it: run that version here, or give this one another database.`,
  });
}

async function schemaVersion(pool: pg.Pool): Promise<number> {
  const found = await pool.query(`SELECT to_regclass('millrace.migrations') IS NOT NULL AS there`);
  if (!found.rows[0]?.there) return 0;
  const { rows } = await pool.query('SELECT coalesce(max(version), 0) AS version FROM millrace.migrations');
  return Number(rows[0]?.version);
}
