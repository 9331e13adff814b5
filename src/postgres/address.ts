/** Where the embedded server listens: a Unix socket in a closed folder, or a port of 127.0.0.1 where the platform has no Unix sockets. */
import { chmod, chown, lstat, mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import type { AppError } from '../core/errors.ts';
import type { Account } from './account.ts';
import { codeOf, failure } from './failure.ts';
import { type Home, readIfPresent } from './home.ts';

/** `host` is a folder if it starts with a slash. The socket in it is then named after the port. */
export type Address = { host: string; port: number };

/** Chooses an address for a start. It is called again with a higher attempt if the server cannot listen there. */
export type ChooseAddress = (home: Home, attempt: number) => Promise<Address>;

const LOOPBACK = '127.0.0.1';
/** Nobody else can listen in a folder of our own, so the number is free. */
const SOCKET_PORT = 5_432;
const MAX_SOCKET_PATH = process.platform === 'linux' ? 107 : 103;
/** Only for homes whose own path is too long, or whose file system has no sockets. */
const SHORT_FOLDER = '/tmp/millrace-';

export const isSocket = ({ host }: Address): boolean => host.startsWith('/');

/** The folder is encoded, because a URL has no other place for it. libpq and node-postgres both read this form. */
export const urlOf = ({ host, port }: Address, credentials: string): string =>
  `postgres://${credentials}@${encodeURIComponent(host)}:${port}`;

export function addressChooser({ folder, account }: { folder: string; account: Account | null }): ChooseAddress {
  return async (home, attempt) => {
    if (process.platform === 'win32') return { host: LOOPBACK, port: await choosePort(home, attempt) };
    const inHome = join(folder, 'postgres-socket');
    const host = attempt === 0 && fits(inHome) ? inHome : await shortFolder(home, account);
    return { host, port: SOCKET_PORT };
  };
}

const fits = (folder: string): boolean => Buffer.byteLength(join(folder, `.s.PGSQL.${SOCKET_PORT}`)) <= MAX_SOCKET_PATH;

/** Takes the short folder of the last start again, so that programs with the old address find the server. */
async function shortFolder(home: Home, account: Account | null): Promise<string> {
  const last = (await readIfPresent(home.hostFile))?.trim() ?? '';
  if (last.startsWith(SHORT_FOLDER) && (!(await exists(last)) || (await isOurs(last, account)))) return last;
  return mkdtemp(SHORT_FOLDER);
}

const exists = (path: string): Promise<boolean> =>
  lstat(path).then(
    () => true,
    () => false,
  );

/** Another user may have created a folder of that name after the old one was removed. */
async function isOurs(folder: string, account: Account | null): Promise<boolean> {
  const found = await lstat(folder).catch(() => null);
  return found?.isDirectory() === true && [process.getuid?.(), account?.uid].includes(found.uid);
}

/** Makes the folder of the socket, which only the server's account and root may enter, and removes what a killed server left in it. */
export async function prepareSocketFolder(folder: string, account: Account | null): Promise<void> {
  await mkdir(folder, { mode: 0o700 }).catch((error) => {
    if (codeOf(error) !== 'EEXIST') throw error;
  });
  if (!(await isOurs(folder, account))) throw notOurs(folder);
  for (const name of await readdir(folder)) if (name.startsWith('.s.PGSQL.')) await rm(join(folder, name));
  await chmod(folder, 0o700);
  if (account !== null) await chown(folder, account.uid, account.gid);
}

const notOurs = (folder: string): AppError =>
  failure(
    'EMBEDDED_START_FAILED',
    `${folder}, where the embedded PostgreSQL opens its socket, belongs to another user or is not a folder. ` +
      'Remove it and start again, or set MILLRACE_HOME to another folder.',
  );

/** A folder outside of the home is removed with the server. */
export async function removeSocketFolder(address: Address): Promise<void> {
  if (isSocket(address) && address.host.startsWith(SHORT_FOLDER)) await rm(address.host, { recursive: true, force: true });
}

/** The port of the last start if it is free, so that programs with the old address find the server again; otherwise any free port. */
export async function choosePort(home: Home, attempt: number): Promise<number> {
  const last = Number((await readIfPresent(home.portFile)) ?? Number.NaN);
  if (attempt === 0 && Number.isInteger(last) && last > 0 && (await probePort(last)) !== null) return last;
  const port = await probePort(0);
  if (port === null) throw new Error(`no port is free on ${LOOPBACK}`);
  return port;
}

function probePort(port: number): Promise<number | null> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(null));
    server.listen({ port, host: LOOPBACK, exclusive: true }, () => {
      const address = server.address();
      server.close(() => resolve(typeof address === 'object' && address !== null ? address.port : null));
    });
  });
}
