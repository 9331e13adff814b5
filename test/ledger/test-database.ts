/** Databases on the tests' server: empty ones, and copies of the template that the global setup has migrated. */
import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { inject } from 'vitest';

export type TestDatabase = {
  url: string;
  /** Returns immediately. The server drops the database while the next file runs. */
  drop(): void;
};

export const emptyDatabase = (): Promise<TestDatabase> => createDatabase('template0');

/** The schema, and the partitions of `records` for the next days. */
export const migratedDatabase = (): Promise<TestDatabase> => createDatabase(inject('databases').template);

/** A copy of the files costs the server 34 ms of processor time, and 15 to drop. A copy through its log costs 73, and 39 to drop. */
const STRATEGY = 'STRATEGY file_copy';

async function createDatabase(template: string): Promise<TestDatabase> {
  const name = `${inject('databases').prefix}${randomBytes(6).toString('hex')}`;
  await onServer(`CREATE DATABASE ${name} TEMPLATE ${template} ${STRATEGY}`);
  const url = new URL(inject('postgresUrl'));
  url.pathname = `/${name}`;
  return { url: url.href, drop: () => void dropDatabase(name) };
}

/**
 * PostgreSQL waits five seconds for sessions that are about to end; cutting them would be an error in the process of the tests. The global
 * setup drops the databases for which the run ended too early.
 */
async function dropDatabase(name: string): Promise<void> {
  await onServer(`DROP DATABASE IF EXISTS ${name}`)
    .catch(() => onServer(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`))
    .catch(() => {});
}

async function onServer(command: string): Promise<void> {
  const admin = new pg.Client({ connectionString: inject('postgresUrl') });
  admin.on('error', () => {});
  await admin.connect();
  await admin.query(command).finally(() => admin.end());
}
