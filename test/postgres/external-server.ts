/**
 * A server this program does not manage: the machine's PostgreSQL 15 where there is one, else the programs from npm.
 */
import { existsSync } from 'node:fs';
import { chown, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { chooseAccount, machineAccounts } from '../../src/postgres/account.ts';
import { locateNative } from '../../src/postgres/binaries.ts';
import { runTool } from '../../src/postgres/run-tool.ts';
import { freePort } from './scratch.ts';

const MACHINE_BIN = '/usr/lib/postgresql/15/bin';

export type ExternalServer = { url: string; major: number; stop(): Promise<void> };

/** How often another port is tried when somebody else took the one that was free. */
const PORTS = 5;

export async function startExternal(params: { folder: string; port?: number }): Promise<ExternalServer> {
  const hasMachineServer = existsSync(join(MACHINE_BIN, 'postgres'));
  const bin = hasMachineServer ? MACHINE_BIN : join(locateNative(), 'bin');
  const account = chooseAccount(machineAccounts, { data: params.folder, home: params.folder });
  await mkdir(params.folder, { mode: 0o700 });
  if (account !== null) await chown(params.folder, account.uid, account.gid);
  const data = join(params.folder, 'data');
  const tool = async (name: string, ...args: string[]) => {
    const { exitCode, output, spawnError } = await runTool({ file: join(bin, name), args, account });
    if (exitCode !== 0) throw new Error(`${name} failed: ${spawnError?.message ?? output}`);
  };
  await tool('initdb', '-D', data, '-U', 'admin', '--auth=trust', '--encoding=UTF8', '--locale=C', '--no-sync');
  const start = async (port: number): Promise<number> => {
    const options = `-c port=${port} -c listen_addresses=127.0.0.1 -c unix_socket_directories=`;
    await tool('pg_ctl', 'start', '-D', data, '-w', '-l', join(params.folder, 'log'), '-o', options);
    return port;
  };
  const startAnywhere = async (left: number): Promise<number> =>
    start(await freePort()).catch((error) => {
      if (left > 1) return startAnywhere(left - 1);
      throw error;
    });
  const port = await (params.port === undefined ? startAnywhere(PORTS) : start(params.port));
  return {
    url: `postgres://admin:secret@127.0.0.1:${port}/postgres`,
    major: hasMachineServer ? 15 : 18,
    stop: () => tool('pg_ctl', 'stop', '-D', data, '-w', '-m', 'fast'),
  };
}
