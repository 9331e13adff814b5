/** One PostgreSQL for the whole run: a fresh embedded one, or the server that MILLRACE_TEST_DATABASE_URL names. */
import { randomUUID } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { openPostgres, type PostgresHandle } from '../src/postgres/open.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** A superuser's address: tests make their own databases from it. */
    postgresUrl: string;
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  // Left for openPostgres to make: as root, a folder from mkdtemp would be closed to the server's account.
  const home = join(tmpdir(), `millrace-test-${randomUUID()}`);
  const removeHome = () => rm(home, { recursive: true, force: true });
  const databaseUrl = process.env.MILLRACE_TEST_DATABASE_URL ?? '';
  let postgres: PostgresHandle;
  try {
    postgres = await openPostgres({ databaseUrl, home, onNotice: console.warn });
  } catch (error) {
    await removeHome();
    throw error;
  }
  project.provide('postgresUrl', postgres.url);
  return async () => {
    await postgres.close();
    await removeHome();
  };
}
