/** One PostgreSQL for the whole run: a fresh embedded one, or the server that MILLRACE_TEST_DATABASE_URL names. */
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { chmod, mkdir, readFile, statfs } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import type { TestProject } from 'vitest/node';
import { openDatabase } from '../src/ledger/driver/database.ts';
import { migrate } from '../src/ledger/driver/migrate.ts';
import { ensurePartitions } from '../src/ledger/history/record-partitions.ts';
import { openPostgres, type PostgresHandle } from '../src/postgres/open.ts';
import { buildProgram } from './built-program.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** A superuser's address: tests make their own databases from it. */
    postgresUrl: string;
    /** The folder of the built package, whose program tests start. */
    program: string;
    /** The migrated database that tests copy, and how the names of all databases of this run begin. */
    databases: { template: string; prefix: string };
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
    project.provide('program', await buildProgram(folder));
    const databaseUrl = process.env.MILLRACE_TEST_DATABASE_URL ?? '';
    const postgres = await openRoomy({ databaseUrl, home: join(folder, 'home'), onNotice: console.warn });
    const databases = await makeTemplate(postgres);
    project.provide('postgresUrl', postgres.url);
    project.provide('databases', databases);
    return async () => {
      if (postgres.kind === 'external') await dropDatabases(postgres.url, databases.prefix);
      await postgres.close();
      await remove();
    };
  } catch (error) {
    await remove();
    throw error;
  }
}

/**
 * Four processes with tests, and the programs that they start, may have more than the 200 sessions that an embedded server allows. Each
 * session maps the shared buffers, and each checkpoint looks at all of them. With 1 GB the server spent 7.2 ms of processor time on a
 * session and 94 on a new database; with 128 MB it spends 4.8 and 73.
 */
const ROOMY = ['max_connections = 1000', "shared_buffers = '128MB'"];

async function openRoomy(options: Parameters<typeof openPostgres>[0]): Promise<PostgresHandle> {
  const postgres = await openPostgres(options);
  if (postgres.kind === 'external') return postgres;
  await onServer(postgres.url, async (admin) => {
    for (const setting of ROOMY) await admin.query(`ALTER SYSTEM SET ${setting}`);
    await shortenProof(admin, postgres.url);
  });
  // The settings need a restart.
  await postgres.close();
  return openPostgres(options);
}

/** A client hashes the password 4096 times for each session, 1.2 ms of processor time, and a run opens ten thousand. */
async function shortenProof(admin: pg.Client, url: string): Promise<void> {
  const password = decodeURIComponent(new URL(url).password);
  await admin.query('SET scram_iterations = 1');
  await admin.query(`ALTER ROLE CURRENT_USER PASSWORD ${admin.escapeLiteral(password)}`);
}

/**
 * With the partitions of the next days: without them, the first engine in each copy would spend 80 ms on making them. On a server of
 * the run, every new database is a copy, also one that `openTestMillrace` makes.
 */
async function makeTemplate({ url: serverUrl, kind }: PostgresHandle): Promise<{ template: string; prefix: string }> {
  const prefix = `millrace_test_${randomUUID().slice(0, 8)}_`;
  const template = kind === 'embedded' ? 'template1' : `${prefix}template`;
  if (kind === 'external') await onServer(serverUrl, (admin) => admin.query(`CREATE DATABASE ${template}`));
  const url = new URL(serverUrl);
  url.pathname = `/${template}`;
  const database = openDatabase({ url: url.href });
  try {
    await migrate(database.maintenance);
    await ensurePartitions(database.maintenance);
  } finally {
    await database.close();
  }
  return { template, prefix };
}

async function dropDatabases(serverUrl: string, prefix: string): Promise<void> {
  await onServer(serverUrl, async (admin) => {
    const text = 'SELECT datname FROM pg_database WHERE starts_with(datname, $1)';
    const { rows } = await admin.query<{ datname: string }>(text, [prefix]);
    for (const { datname } of rows) await admin.query(`DROP DATABASE IF EXISTS ${datname} WITH (FORCE)`);
  });
}

async function onServer(url: string, work: (admin: pg.Client) => Promise<unknown>): Promise<void> {
  const admin = new pg.Client({ connectionString: url });
  await admin.connect();
  await work(admin).finally(() => admin.end());
}

/** Removed also when a signal ends the run, and with it whatever the run has started. */
async function makeFolder(): Promise<{ folder: string; remove(): Promise<void> }> {
  const root = process.env.TMPDIR ?? (await memoryFolder()) ?? tmpdir();
  const folder = join(root, `mr-test-${randomUUID().slice(0, 8)}`);
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

/**
 * Linux keeps files below this path in memory. PostgreSQL flushes its log at each commit and all its files for each database that is
 * dropped, and the disk of a small machine takes milliseconds each time.
 */
const MEMORY = '/dev/shm';
const ENOUGH_BYTES = 4 * 1024 ** 3;

/** Undefined where the system has too little memory to lend, or does not let programs run from there. */
async function memoryFolder(): Promise<string | undefined> {
  try {
    const { bavail, bsize } = await statfs(MEMORY);
    const mounts = (await readFile('/proc/mounts', 'utf8')).split('\n').map((line) => line.split(' '));
    const options = mounts.find(([, path]) => path === MEMORY)?.[3]?.split(',') ?? ['noexec'];
    const bytes = Math.min(bavail * bsize, process.availableMemory());
    return bytes >= ENOUGH_BYTES && !options.includes('noexec') ? MEMORY : undefined;
  } catch {
    return undefined;
  }
}
