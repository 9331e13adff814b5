/** Copies of the platform package, to stand for installations that went differently. */
import { chmod, cp, lstat, mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { locateNative } from '../../src/postgres/binaries.ts';
import { run } from './scratch.ts';

/** The package as npm unpacks it when install scripts are off: without symbolic links. Returns its `native` folder. */
export async function copyWithoutLinks(folder: string): Promise<string> {
  const native = locateNative();
  await mkdir(folder, { recursive: true });
  await cp(join(dirname(native), 'package.json'), join(folder, 'package.json'));
  await cp(native, join(folder, 'native'), {
    recursive: true,
    filter: async (path) => !path.endsWith('.a') && !(await lstat(path)).isSymbolicLink(),
  });
  return join(folder, 'native');
}

/** Makes a copied package refuse new links, by whatever means this machine allows. Returns how to undo it. */
export async function makeReadOnly(native: string): Promise<() => Promise<unknown>> {
  if (process.getuid?.() !== 0) {
    await chmod(join(native, 'lib'), 0o555);
    return () => chmod(join(native, 'lib'), 0o755);
  }
  try {
    await run('mount', ['--bind', native, native]);
  } catch {
    // Root writes everywhere and this container may not mount: one link that can never be made has the same effect.
    const list = join(native, 'pg-symlinks.json');
    const links = JSON.parse(await readFile(list, 'utf8'));
    const impossible = { source: 'native/lib/libpq.so.5.18', target: 'native/absent/libpq.so' };
    await writeFile(list, JSON.stringify([impossible, ...links]));
    return async () => {};
  }
  await run('mount', ['-o', 'remount,ro,bind', native]);
  return () => run('umount', [native]);
}

/** A `native` folder whose programs are scripts: enough to see how their failures are explained. */
export async function scriptedNative(folder: string, scripts: Record<string, string>): Promise<string> {
  const bin = join(folder, 'native', 'bin');
  await mkdir(bin, { recursive: true });
  await writeFile(join(folder, 'package.json'), '{"version":"0.0.0"}');
  for (const [name, script] of Object.entries(scripts)) {
    await writeFile(join(bin, name), `#!/bin/sh\n${script}\n`);
    await chmod(join(bin, name), 0o755);
  }
  return join(folder, 'native');
}
