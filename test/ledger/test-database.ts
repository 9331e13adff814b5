/** Databases on the tests' server: empty ones, and copies of one that is migrated once for all. */
import { createHash, randomBytes } from 'node:crypto';
import pg from 'pg';
import { inject } from 'vitest';
import { openDatabase } from '../../src/ledger/driver/database.ts';
import { migrate, readMigrations } from '../../src/ledger/driver/migrate.ts';

const TEMPLATE_LOCK = 0x7465_6d70;

export type TestDatabase = { url: string; drop(): Promise<void> };

/** Nobody has made anything in it. */
export async function emptyDatabase(): Promise<TestDatabase> {
  const name = newName();
  await withAdmin((admin) => admin.query(`CREATE DATABASE ${name}`));
  return opened(name);
}

export async function migratedDatabase(): Promise<TestDatabase> {
  const name = newName();
  await withAdmin(async (admin) => {
    await admin.query('SELECT pg_advisory_lock($1)', [TEMPLATE_LOCK]);
    await admin.query(`CREATE DATABASE ${name} TEMPLATE ${await templateOf(admin)}`);
  });
  return opened(name);
}

const newName = () => `millrace_test_${randomBytes(6).toString('hex')}`;

const opened = (name: string): TestDatabase => ({
  url: urlOf(name),
  drop: () => withAdmin((admin) => admin.query(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`)),
});

function urlOf(database: string): string {
  const url = new URL(inject('postgresUrl'));
  url.pathname = `/${database}`;
  return url.href;
}

async function withAdmin(work: (admin: pg.Client) => Promise<unknown>): Promise<void> {
  const admin = new pg.Client({ connectionString: inject('postgresUrl') });
  await admin.connect();
  await work(admin).finally(() => admin.end());
}

/** Migrated under another name and renamed when done, so that a template is never half made. Runs under the lock. */
async function templateOf(admin: pg.Client): Promise<string> {
  const hash = createHash('sha256').update(JSON.stringify(readMigrations())).digest('hex').slice(0, 12);
  const name = `millrace_template_${hash}`;
  const { rowCount } = await admin.query('SELECT FROM pg_database WHERE datname = $1', [name]);
  if (rowCount !== 0) return name;
  const draft = `${name}_draft`;
  await admin.query(`DROP DATABASE IF EXISTS ${draft} WITH (FORCE)`);
  await admin.query(`CREATE DATABASE ${draft}`);
  const database = openDatabase({ url: urlOf(draft) });
  await migrate(database.maintenance).finally(() => database.close());
  await admin.query(`ALTER DATABASE ${draft} RENAME TO ${name}`);
  return name;
}
