/** The folder of one installation: its files and their permissions. */
import { randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import { access, chown, mkdir, readFile, realpath, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { codeOf, explainDiskFull, failure, messageOf } from './failure.ts';

export type Home = {
  path: string;
  /** Held during every start and stop. */
  lockFile: string;
  /** Contains one locked file for each process that uses the server. */
  usersFolder: string;
  passwordFile: string;
  /** Contains the folder of the Unix socket, or the address. */
  hostFile: string;
  portFile: string;
  logFile: string;
  /** Contains the path of the data and programs when the server's account cannot enter the home. */
  locationFile: string;
};

/**
 * Creates the home when it is missing. Root's home has the mode 0711, so that the server's account can reach the data but not list
 * the home. An existing folder keeps its mode.
 */
export async function openHome(path: string, isRoot: boolean): Promise<Home> {
  try {
    const absolute = resolve(path);
    await mkdir(resolve(absolute, '..'), { recursive: true });
    await mkdir(absolute, { mode: isRoot ? 0o711 : 0o700 }).catch((error) => {
      if (codeOf(error) !== 'EEXIST') throw error;
    });
    await access(absolute, constants.W_OK | constants.X_OK);
    const home = layout(await realpath(absolute));
    await mkdir(home.usersFolder, { mode: 0o700, recursive: true });
    await giveToOwner(home, home.usersFolder, isRoot);
    return home;
  } catch (error) {
    throw explainHome(path, error);
  }
}

function layout(path: string): Home {
  return {
    path,
    lockFile: join(path, 'postgres.lock'),
    usersFolder: join(path, 'postgres-users'),
    passwordFile: join(path, 'postgres-password'),
    hostFile: join(path, 'postgres-host'),
    portFile: join(path, 'postgres-port'),
    logFile: join(path, 'postgres.log'),
    locationFile: join(path, 'postgres-location'),
  };
}

/** When root works in the home of another user, that user must be able to open the files later. */
export async function giveToOwner(home: Home, path: string, isRoot: boolean): Promise<void> {
  if (!isRoot) return;
  const owner = await stat(home.path);
  if (owner.uid !== 0) await chown(path, owner.uid, owner.gid);
}

/** The superuser's password, created on first use. It is written atomically, because the data is useless without it. */
export async function ensurePassword(home: Home, isRoot: boolean): Promise<string> {
  const known = await readIfPresent(home.passwordFile);
  if (known !== null && known.trim() !== '') return known.trim();
  const password = randomBytes(24).toString('base64url');
  await writeWhole(home.passwordFile, `${password}\n`);
  await giveToOwner(home, home.passwordFile, isRoot);
  return password;
}

export async function readIfPresent(path: string): Promise<string | null> {
  return readFile(path, 'utf8').catch((error) => {
    if (codeOf(error) === 'ENOENT') return null;
    throw error;
  });
}

export async function writeWhole(path: string, text: string): Promise<void> {
  const staging = `${path}.new`;
  await rm(staging, { force: true });
  await writeFile(staging, text, { mode: 0o600, flush: true });
  await rename(staging, path);
}

function explainHome(path: string, error: unknown): unknown {
  const explained = explainDiskFull(error, path);
  if (explained !== error) return explained;
  return failure(
    'EMBEDDED_START_FAILED',
    `The folder ${path} cannot be used as the home of the embedded PostgreSQL (${messageOf(error)}). ` +
      'Use a folder that this user can write to, or set MILLRACE_HOME to another one.',
    error,
  );
}
