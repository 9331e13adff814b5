// Puts the Node of the lockfile into node_modules/.bin. npm 11 already did. npm 10 removes the link again, together with those of
// the packages for other platforms, which have the same name. Runs on any Node, so it is not TypeScript.
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const modules = fileURLToPath(new URL('../../node_modules', import.meta.url));
const { optionalDependencies } = JSON.parse(readFileSync(new URL('package.json', import.meta.url), 'utf8'));
const name = Object.keys(optionalDependencies).find((one) => existsSync(join(modules, one, 'package.json')));
const bin = join(modules, '.bin');

if (name !== undefined && !existsSync(join(bin, process.platform === 'win32' ? 'node.cmd' : 'node'))) {
  mkdirSync(bin, { recursive: true });
  if (process.platform === 'win32') writeFileSync(join(bin, 'node.cmd'), `@"%~dp0..\\${name}\\bin\\node.exe" %*\r\n`);
  else symlinkSync(`../${name}/bin/node`, join(bin, 'node'));
}
