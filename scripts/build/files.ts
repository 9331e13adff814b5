/** The files of the package that are neither compiled nor bundled. */
import { cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';

type Places = { root: string; dist: string };

export function copyMigrations({ root, dist }: Places): void {
  const from = join(root, 'src/ledger/migrations');
  const to = join(dist, 'ledger/migrations');
  mkdirSync(to, { recursive: true });
  for (const name of readdirSync(from)) {
    if (name.endsWith('.sql')) cpSync(join(from, name), join(to, name));
  }
}

/** Swagger UI is 12 MB with all its variants and source maps. The page needs two files, 0.5 MB compressed. */
export function copyApiPage({ root, dist }: Places): void {
  const from = join(root, 'node_modules/swagger-ui-dist');
  const to = join(dist, 'http/system/swagger-ui');
  mkdirSync(to, { recursive: true });
  for (const name of ['swagger-ui-bundle.js', 'swagger-ui.css']) {
    writeFileSync(join(to, `${name}.gz`), gzipSync(readFileSync(join(from, name)), { level: 9 }));
  }
  for (const name of ['LICENSE', 'NOTICE', 'swagger-ui-bundle.js.LICENSE.txt']) cpSync(join(from, name), join(to, name));
}
