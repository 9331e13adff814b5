/** A PostgreSQL server that the test can crash and restart. Its data is on disk at every commit, as in production. */
import { randomInt, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { chown, mkdir, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chooseAccount, machineAccounts } from '../src/postgres/account.ts';
import { locateNative } from '../src/postgres/binaries.ts';
import { runTool } from '../src/postgres/run-tool.ts';

export type PostgresServer = {
  readonly url: string;
  /** Stops the server at once, as a power failure would. The next start runs recovery. */
  crash(): Promise<void>;
  /** Resolves when the server accepts connections. */
  start(): Promise<void>;
  remove(): Promise<void>;
};

export async function createPostgres(): Promise<PostgresServer> {
  const folder = join(tmpdir(), `millrace-chaos-${randomUUID()}`);
  const data = join(folder, 'data');
  const account = chooseAccount(machineAccounts, { data: folder, home: folder });
  await mkdir(folder, { mode: 0o700 });
  if (account !== null) await chown(folder, account.uid, account.gid);
  const tool = async (name: string, ...args: string[]) => {
    const file = join(locateNative(), 'bin', name);
    const { exitCode, output, spawnError } = await runTool({ file, args, account });
    if (exitCode !== 0) throw new Error(`${name} failed: ${spawnError?.message ?? output}`);
  };
  const port = await freePort();
  const options = `-c port=${port} -c listen_addresses=127.0.0.1 -c unix_socket_directories=`;
  const start = () => tool('pg_ctl', 'start', '-D', data, '-w', '-l', join(folder, 'log'), '-o', options);
  const crash = () => tool('pg_ctl', 'stop', '-D', data, '-w', '-m', 'immediate');
  await tool('initdb', '-D', data, '-U', 'admin', '--auth=trust', '--encoding=UTF8', '--locale=C', '--no-sync');
  await start();
  return {
    url: `postgres://admin@127.0.0.1:${port}/postgres`,
    crash,
    start,
    async remove() {
      await crash().catch(() => {}); // It may be down already.
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** Linux gives ports from 32768 on to those who ask for any. One below stays free while its server starts again. */
const PORTS = { from: 20_000, to: 32_000 };

export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(PORTS.from, PORTS.to);
    const probe = createServer();
    const isFree = await new Promise<boolean>((resolve) => {
      probe.once('error', () => resolve(false)).listen(port, '127.0.0.1', () => resolve(true));
    });
    if (!isFree) continue;
    probe.close();
    await once(probe, 'close');
    return port;
  }
}
