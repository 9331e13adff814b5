import { randomUUID } from 'node:crypto';
import { rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { openPostgres } from '../src/postgres/open.ts';

/** A server for the bench (DATABASE_URL, or an embedded one in a folder that is removed), with a fresh database for each scenario. */
export async function openScratch() {
  // Left for openPostgres to make: as root, a folder from mkdtemp would be closed to the server's account, and the data elsewhere.
  const home = process.env.DATABASE_URL === undefined ? join(tmpdir(), `millrace-bench-${randomUUID()}`) : undefined;
  const postgres = await openPostgres({ home });
  const databases: string[] = [];
  const admin = async (sql: string) => {
    const client = new pg.Client(postgres.url);
    await client.connect();
    await client.query(sql).finally(() => client.end());
  };
  return {
    version: postgres.version,
    async fresh(name: string): Promise<string> {
      const database = `millrace_bench_${name}`;
      await admin(`DROP DATABASE IF EXISTS ${database} WITH (FORCE)`);
      await admin(`CREATE DATABASE ${database}`);
      databases.push(database);
      const url = new URL(postgres.url);
      url.pathname = `/${database}`;
      return url.href;
    },
    async close() {
      for (const database of databases) await admin(`DROP DATABASE IF EXISTS ${database} WITH (FORCE)`);
      await postgres.close();
      if (home !== undefined) rmSync(home, { recursive: true, force: true });
    },
  };
}
