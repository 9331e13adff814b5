// Makes dist/, or the folder named: the compiled modules, the libraries they use, their declarations, the migrations, and the files
// of the API page.
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { gzipSync } from 'node:zlib';
import { writeDeclarations } from './declarations.ts';
import { compileModules } from './modules.ts';
import { bundleThirdParty } from './third-party.ts';

const root = join(import.meta.dirname, '../..');
const dist = resolve(process.argv[2] ?? join(root, 'dist'));

function copyMigrations(): void {
  const from = join(root, 'src/ledger/migrations');
  const to = join(dist, 'ledger/migrations');
  mkdirSync(to, { recursive: true });
  for (const name of readdirSync(from)) {
    if (name.endsWith('.sql')) cpSync(join(from, name), join(to, name));
  }
}

/** Swagger UI is 12 MB with all its variants and source maps. The page needs two files, 0.5 MB compressed. */
function copyApiPage(): void {
  const from = join(root, 'node_modules/swagger-ui-dist');
  const to = join(dist, 'http/system/swagger-ui');
  mkdirSync(to, { recursive: true });
  for (const name of ['swagger-ui-bundle.js', 'swagger-ui.css']) {
    writeFileSync(join(to, `${name}.gz`), gzipSync(readFileSync(join(from, name)), { level: 9 }));
  }
  for (const name of ['LICENSE', 'NOTICE', 'swagger-ui-bundle.js.LICENSE.txt']) cpSync(join(from, name), join(to, name));
}

rmSync(dist, { recursive: true, force: true });
await compileModules({ root, dist });
await bundleThirdParty({ root, dist });
writeDeclarations({ root, dist });
copyMigrations();
copyApiPage();
