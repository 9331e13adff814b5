/** Folders, homes and servers for the tests of this room; nothing outlives the test file. */
import { execFile } from 'node:child_process';
import { randomInt, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { chmod, mkdir } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Client } from 'pg';
import { openEmbedded } from '../../src/postgres/embedded.ts';
import { readPostmaster } from '../../src/postgres/postmaster.ts';
import { removeFolder } from './remove-folder.ts';

export const run = promisify(execFile);
export const isRoot = process.getuid?.() === 0;
export const silent = () => {};

export type Scratch = {
  path: string;
  /** A path below the scratch folder that does not exist yet. */
  fresh(name?: string): string;
  /** A home with an initialised, stopped cluster: a copy of one that is made once for each test file. */
  preparedHome(): Promise<string>;
  remove(): Promise<void>;
};

export async function makeScratch(): Promise<Scratch> {
  // Short, because the path of a Unix socket has at most about 100 characters.
  const path = join(tmpdir(), `pg-${randomUUID().slice(0, 8)}`);
  await mkdir(path);
  await chmod(path, 0o755);
  let template: Promise<string> | undefined;
  const fresh = (name = 'home') => join(path, `${name}-${randomUUID().slice(0, 8)}`);
  const preparedHome = async () => {
    template ??= makeTemplate(fresh('template'));
    const home = fresh();
    await run('cp', ['-a', await template, home]);
    return home;
  };
  return { path, fresh, preparedHome, remove: () => removeFolder(path) };
}

async function makeTemplate(home: string): Promise<string> {
  const server = await openEmbedded({ home, onNotice: silent });
  await server.close();
  return home;
}

export async function query<Row extends object>(url: string, text: string): Promise<Row[]> {
  const client = new Client({ connectionString: url });
  client.on('error', silent);
  await client.connect();
  try {
    return (await client.query<Row>(text)).rows;
  } finally {
    await client.end();
  }
}

export function postmasterPid(home: string): number | null {
  return readPostmaster(join(home, 'postgres'))?.pid ?? null;
}

/** Below the ports that the system gives to programs that ask for any, so that none of them takes it before the test does. */
export async function freePort(): Promise<number> {
  const port = randomInt(20_000, 32_000);
  const server = createServer().listen(port, '127.0.0.1');
  try {
    await once(server, 'listening');
  } catch {
    return freePort();
  }
  server.close();
  await once(server, 'close');
  return port;
}
