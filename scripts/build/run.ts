// Makes dist/, or the folder named: the compiled modules, the libraries they use, their declarations, the migrations, and the files
// of the API page.
import { rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { writeDeclarations } from './declarations.ts';
import { copyApiPage, copyMigrations } from './files.ts';
import { compileModules } from './modules.ts';
import { bundleThirdParty } from './third-party.ts';

const root = join(import.meta.dirname, '../..');
const dist = resolve(process.argv[2] ?? join(root, 'dist'));

rmSync(dist, { recursive: true, force: true });
await compileModules({ root, dist });
await bundleThirdParty({ root, dist });
writeDeclarations({ root, dist });
copyMigrations({ root, dist });
copyApiPage({ root, dist });
