/** Checks the data folder and creates it on first use. */
import { randomUUID } from 'node:crypto';
import { chown, mkdir, readdir, rename, rm, rmdir, writeFile } from 'node:fs/promises';
import { totalmem } from 'node:os';
import { basename, dirname, join } from 'node:path';
import type { AppError } from '../core/errors.ts';
import type { Account } from './account.ts';
import type { Binaries } from './binaries.ts';
import { codeOf, diskFull, explainDiskFull, failure } from './failure.ts';
import { readIfPresent } from './home.ts';
import { runTool, type ToolResult } from './run-tool.ts';

export const SUPERUSER = 'millrace';
const MARKER = 'millrace-cluster';

/** Written once to postgresql.conf, where an operator can change them. Settings for durability are set at every start. */
const DEFAULT_SETTINGS: Readonly<Record<string, string>> = {
  shared_buffers: `${sharedMegabytes()}MB`,
  // After a checkpoint the first change of each page logs the whole page. Fewer checkpoints need more disk and a longer recovery.
  max_wal_size: '4GB',
  max_connections: '200',
  // The programs from npm are built without lz4, and pglz costs more processor time than the bytes it saves.
  wal_compression: 'off',
  timezone: 'UTC',
  log_timezone: 'UTC',
  log_checkpoints: 'off',
};

/** An eighth of the memory, at least PostgreSQL's default, and at most what a ledger of some million jobs needs. */
function sharedMegabytes(): number {
  const bytes = Math.min(totalmem(), process.constrainedMemory() || Number.POSITIVE_INFINITY);
  return Math.max(128, Math.min(1_024, Math.floor(bytes / 8 / 2 ** 20)));
}

export type ClusterParams = { dataFolder: string; passwordFile: string; account: Account | null; binaries: Binaries };

export async function ensureCluster(params: ClusterParams & { password: () => Promise<string> }): Promise<void> {
  await sweepStaging(params.dataFolder);
  if ((await inspectCluster(params)) === 'ours') return;
  await makeCluster({ ...params, password: await params.password() });
}

async function inspectCluster(params: ClusterParams): Promise<'absent' | 'ours'> {
  const { dataFolder, binaries } = params;
  const names = await readdir(dataFolder).catch((error): string[] => {
    if (codeOf(error) === 'ENOENT') return [];
    throw foreign(dataFolder, codeOf(error) === 'ENOTDIR' ? 'is not a folder' : 'cannot be read by this user', error);
  });
  if (names.length === 0) return 'absent';
  const version = await readIfPresent(join(dataFolder, 'PG_VERSION'));
  if (version === null) throw foreign(dataFolder, 'contains files that are not a PostgreSQL database');
  refuseOtherVersion({ dataFolder, found: Number.parseInt(version, 10), expected: binaries.major });
  if (!names.includes(MARKER)) throw foreign(dataFolder, 'contains a PostgreSQL database of another program');
  if ((await readIfPresent(params.passwordFile)) === null) {
    throw foreign(dataFolder, `contains a database whose password is lost (${params.passwordFile} is missing)`);
  }
  return 'ours';
}

function refuseOtherVersion(params: { dataFolder: string; found: number; expected: number }): void {
  const { dataFolder, found, expected } = params;
  if (found === expected) return;
  const [code, advice] =
    found > expected
      ? (['EMBEDDED_NEWER_DATA', 'Use the newer version of this program that created it'] as const)
      : (['EMBEDDED_OLDER_DATA', 'Dump it with the version of this program that created it and load the dump into a new folder'] as const);
  throw failure(
    code,
    `The data in ${dataFolder} was written by PostgreSQL ${found}, but this program contains PostgreSQL ${expected}. ` +
      `${advice}, or set MILLRACE_HOME to another folder. Nothing was changed.`,
  );
}

/** Creates the folder under another name and renames it, so a crash never leaves an incomplete database. */
async function makeCluster(params: ClusterParams & { password: string }): Promise<void> {
  const { dataFolder, account } = params;
  const staging = `${dataFolder}.new-${randomUUID()}`;
  const data = join(staging, 'data');
  try {
    await mkdir(staging, { mode: 0o700 });
    const passwordFile = join(staging, 'password');
    await writeFile(passwordFile, params.password, { mode: 0o600 });
    if (account !== null) {
      await chown(passwordFile, account.uid, account.gid);
      await chown(staging, account.uid, account.gid);
    }
    const result = await runTool({ file: params.binaries.initdb, args: initdbArgs(data, passwordFile), account });
    if (result.exitCode !== 0) throw explainInitdb(dataFolder, result);
    await writeFile(join(data, MARKER), 'Made and managed by millrace.\n');
    await rmdir(dataFolder).catch(() => undefined);
    await rename(data, dataFolder);
  } catch (error) {
    throw explainDiskFull(error, dataFolder);
  } finally {
    await rm(staging, { recursive: true, force: true });
  }
}

/** An orphaned initdb may still be writing, so each attempt uses a new folder, and a failed cleanup is retried at the next start. */
async function sweepStaging(dataFolder: string): Promise<void> {
  const folder = dirname(dataFolder);
  const abandoned = (await readdir(folder)).filter((name) => name.startsWith(`${basename(dataFolder)}.new-`));
  for (const name of abandoned) await rm(join(folder, name), { recursive: true, force: true }).catch(() => undefined);
}

function initdbArgs(data: string, passwordFile: string): string[] {
  const settings = Object.entries(DEFAULT_SETTINGS).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  return [
    `--pgdata=${data}`,
    `--username=${SUPERUSER}`,
    `--pwfile=${passwordFile}`,
    '--auth=scram-sha-256',
    '--encoding=UTF8',
    '--locale=C',
    '--locale-provider=builtin',
    '--builtin-locale=C.UTF-8',
    ...settings,
  ];
}

function explainInitdb(dataFolder: string, result: ToolResult): AppError {
  if (/No space left on device|Disk quota exceeded/i.test(result.output)) return diskFull(dataFolder);
  if (result.output.includes('could not look up effective user ID')) {
    return failure(
      'EMBEDDED_START_FAILED',
      'PostgreSQL cannot create its data folder for a user without a name. Add this user id to /etc/passwd, ' +
        'run as a user with a name, or set DATABASE_URL to a PostgreSQL server.',
    );
  }
  const reason = result.spawnError?.message ?? result.output.trim().split('\n').slice(-10).join('\n');
  return failure(
    'EMBEDDED_START_FAILED',
    `PostgreSQL could not create its data folder ${dataFolder}. Correct the error below, ` +
      `or set DATABASE_URL to a PostgreSQL server:\n${reason}`,
    result.spawnError ?? undefined,
  );
}

function foreign(dataFolder: string, what: string, cause?: unknown): AppError {
  return failure(
    'EMBEDDED_FOREIGN_DATA',
    `${dataFolder} ${what}. Move it away, or set MILLRACE_HOME to another folder. Nothing was changed.`,
    cause,
  );
}
