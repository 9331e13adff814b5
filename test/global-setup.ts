/** One PostgreSQL for the whole run: a fresh embedded one, or the server that MILLRACE_TEST_DATABASE_URL names. */
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { chmod, mkdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { TestProject } from 'vitest/node';
import { openPostgres } from '../src/postgres/open.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** A superuser's address: tests make their own databases from it. */
    postgresUrl: string;
  }
}

const KEEPER = fileURLToPath(new URL('./folder-keeper.ts', import.meta.url));

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const { folder, remove } = await makeFolder();
  // Whatever tests leave in the folder for temporary files goes with the run.
  process.env.TMPDIR = folder;
  // Hundreds of processes load the same sources: the first one keeps what it compiled for the others.
  process.env.NODE_COMPILE_CACHE ??= join(folder, 'compiled');
  try {
    const databaseUrl = process.env.MILLRACE_TEST_DATABASE_URL ?? '';
    const postgres = await openPostgres({ databaseUrl, home: join(folder, 'home'), onNotice: console.warn });
    project.provide('postgresUrl', postgres.url);
    return async () => {
      await postgres.close();
      await remove();
    };
  } catch (error) {
    await remove();
    throw error;
  }
}

/** Removed also when a signal ends the run, and with it whatever the run has started. */
async function makeFolder(): Promise<{ folder: string; remove(): Promise<void> }> {
  const folder = join(tmpdir(), `millrace-test-${randomUUID().slice(0, 8)}`);
  await mkdir(folder);
  await chmod(folder, 0o755); // As root, the server's account must be able to enter.
  // A session of its own: Ctrl-C is for the run.
  const keeper = spawn(process.execPath, [KEEPER, folder], { stdio: ['pipe', 'ignore', 'inherit'], detached: true });
  const gone = once(keeper, 'exit');
  const remove = async () => {
    keeper.stdin.end('done');
    await gone;
  };
  return { folder, remove };
}
