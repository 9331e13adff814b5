/** The package as others install it: built, packed by npm, and unpacked in a project with its dependencies. */
import { execFile } from 'node:child_process';
import { chmodSync, cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import manifest from '../../package.json' with { type: 'json' };

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const runFile = promisify(execFile);

export type Packed = {
  /** The folder of a project that has the package in its node_modules. */
  project: string;
  installed: string;
  tarball: string;
  /** The paths of the files in the tarball. */
  files: string[];
  tarballBytes: number;
  unpackedBytes: number;
  /** The oldest Node of this machine that may run the package. */
  node: string;
  remove(): void;
};

export async function packAndInstall(): Promise<Packed> {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-package-'));
  chmodSync(folder, 0o755); // PostgreSQL may run as another user.
  const stage = join(folder, 'stage');
  // npm takes the README and the licence with it although the list of files does not name them.
  for (const part of ['package.json', 'README.md', 'LICENSE', ...manifest.files]) {
    if (part !== 'dist') cpSync(join(ROOT, part), join(stage, part), { recursive: true });
  }
  await runFile(process.execPath, [join(ROOT, 'scripts/build/run.ts'), join(stage, 'dist')]);
  const { stdout } = await runFile('npm', ['pack', stage, '--json', '--ignore-scripts', '--pack-destination', folder]);
  const [{ filename, files, size, unpackedSize }] = Object.values(JSON.parse(stdout)) as [PackReport];
  const installed = join(folder, 'project/node_modules/millrace');
  mkdirSync(installed, { recursive: true });
  const tarball = join(folder, filename);
  await runFile('tar', ['-xzf', tarball, '--strip-components=1', '-C', installed]);
  for (const name of Object.keys(manifest.dependencies)) linkDependency(installed, name);
  return {
    ...{ project: join(folder, 'project'), installed, tarball, node: await oldestNode() },
    ...{ files: files.map(({ path }) => path), tarballBytes: size, unpackedBytes: unpackedSize },
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}

type PackReport = { filename: string; files: { path: string }[]; size: number; unpackedSize: number };

/** Makes a package of the clone visible to the installed package only. */
export function linkDependency(installed: string, name: string): void {
  const link = join(installed, 'node_modules', name);
  mkdirSync(dirname(link), { recursive: true });
  symlinkSync(join(ROOT, 'node_modules', name), link);
}

async function oldestNode(): Promise<string> {
  const folders = (process.env.PATH ?? '').split(delimiter).filter((one) => !one.includes('node_modules'));
  const name = process.platform === 'win32' ? 'node.exe' : 'node';
  let oldest = { path: process.execPath, version: versionOf(process.versions.node) };
  for (const path of folders.map((one) => join(one, name)).filter((one) => existsSync(one))) {
    const { stdout } = await runFile(path, ['-p', 'process.versions.node']);
    const version = versionOf(stdout);
    if (version >= versionOf(manifest.engines.node.replace('>=', '')) && version < oldest.version) oldest = { path, version };
  }
  return oldest.path;
}

/** A number that grows with the version. */
function versionOf(text: string): number {
  const [major = 0, minor = 0, patch = 0] = text.trim().split('.').map(Number);
  return (major * 1_000 + minor) * 1_000 + patch;
}
