// The package as users install it: chunks that load in a third of the time that the sources take.
import { spawnSync } from 'node:child_process';
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '..');
const ENTRY = join(ROOT, 'dist/index.js');

type Package = typeof import('../src/index.ts');

/** Builds the package if it is missing or older than a source file, and imports it. */
export async function builtPackage(): Promise<Package> {
  if (changedAtMs(ENTRY) < newestSourceMs()) build();
  return (await import(ENTRY)) as Package;
}

function build(): void {
  const { status, error } = spawnSync(process.execPath, [join(ROOT, 'scripts/build/run.ts')], { cwd: ROOT, stdio: 'inherit' });
  if (error !== undefined) throw error;
  if (status !== 0) throw new Error('The build failed. Run "npm run build" to see why.');
}

const changedAtMs = (path: string): number => statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0;

function newestSourceMs(): number {
  const files = readdirSync(join(ROOT, 'src'), { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return Math.max(...files.map(({ parentPath, name }) => changedAtMs(join(parentPath, name))));
}
