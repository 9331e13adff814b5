// Makes dist/, or the folder named: the compiled sources, and the migrations, which the compiler does not know about.
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';

const root = join(import.meta.dirname, '..');
const dist = resolve(process.argv[2] ?? join(root, 'dist'));

function compile(): void {
  const tsc = join(root, 'node_modules/typescript/bin/tsc');
  const { status, error } = spawnSync(process.execPath, [tsc, '-p', 'tsconfig.build.json', '--outDir', dist], {
    cwd: root,
    stdio: 'inherit',
  });
  if (error) throw error;
  if (status !== 0) process.exit(status ?? 1);
}

function copyMigrations(): void {
  const from = join(root, 'src/ledger/migrations');
  const to = join(dist, 'ledger/migrations');
  mkdirSync(to, { recursive: true });
  for (const name of readdirSync(from)) {
    if (name.endsWith('.sql')) cpSync(join(from, name), join(to, name));
  }
}

rmSync(dist, { recursive: true, force: true });
compile();
copyMigrations();
