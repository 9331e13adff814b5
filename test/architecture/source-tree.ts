import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, sep } from 'node:path';

/** Paths from the repository's root, with forward slashes, to the text of the file. */
export type SourceTree = ReadonlyMap<string, string>;

const root = join(import.meta.dirname, '../..');

export function readSourceTree(...folders: string[]): SourceTree {
  const tree = new Map<string, string>();
  for (const folder of folders) {
    if (!existsSync(join(root, folder))) continue;
    for (const name of readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })) {
      const path = `${folder}/${name.split(sep).join('/')}`;
      if (path.includes('/node_modules/')) continue;
      if (/\.[cm]?[jt]s$/.test(path)) tree.set(path, readFileSync(join(root, path), 'utf8'));
    }
  }
  return tree;
}
