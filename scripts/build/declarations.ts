/** Writes the declarations that the entries of the package reach. Users cannot import the others. */
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

const ENTRIES = ['index.d.ts', 'client/index.d.ts', 'testing/index.d.ts'];
const RELATIVE = /(?<=(?:from |import\()(['"]))\.[^'"]*(?=\.ts\1)/g;

export function writeDeclarations({ root, dist }: { root: string; dist: string }): void {
  const all = mkdtempSync(join(tmpdir(), 'millrace-declarations-'));
  try {
    declare(root, all);
    const reached = new Set(ENTRIES);
    for (const file of reached) {
      const text = readFileSync(join(all, file), 'utf8');
      for (const [path] of text.matchAll(RELATIVE)) reached.add(join(dirname(file), `${path}.d.ts`));
      mkdirSync(dirname(join(dist, file)), { recursive: true });
      writeFileSync(join(dist, file), text.replaceAll(/(?<=(?:from |import\()(['"])\.[^'"]*)\.ts(?=\1)/g, '.js'));
    }
  } finally {
    rmSync(all, { recursive: true, force: true });
  }
}

function declare(root: string, to: string): void {
  const tsc = join(root, 'node_modules/typescript/bin/tsc');
  const { status, error } = spawnSync(process.execPath, [tsc, '-p', 'tsconfig.build.json', '--outDir', to], {
    cwd: root,
    stdio: 'inherit',
  });
  if (error) throw error;
  if (status !== 0) process.exit(status ?? 1);
}
