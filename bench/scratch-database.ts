import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { openPostgres } from '../src/postgres/open.ts';

/** A server for the bench (DATABASE_URL, or an embedded one in a folder that is removed), with a fresh database for each scenario. */
export async function openScratch() {
  const home = process.env.DATABASE_URL === undefined ? mkdtempSync(join(tmpdir(), 'millrace-bench-')) : undefined;
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
