import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';

export type Program = (urls: readonly string[], folder: string) => Promise<readonly [command: string, args: readonly string[]]>;

async function listOf(urls: readonly string[], folder: string, line: (url: string, n: number) => string): Promise<string> {
  const path = join(folder, 'list');
  await writeFile(path, urls.map(line).join('\n'));
  return path;
}

/** What people would use instead for many small files. */
export const PROGRAMS: ReadonlyMap<string, Program> = new Map<string, Program>([
  [
    'aria2c -j 64',
    async (urls, folder) => ['aria2c', ['-q', '-i', await listOf(urls, folder, (url, n) => `${url}\n out=${n}`), '-j', '64', '-d', folder]],
  ],
  ['wget -i', async (urls, folder) => ['wget', ['-q', '-i', await listOf(urls, folder, (url) => url), '-P', folder]]],
]);

/** And for one large file. */
export const CURL: Program = async ([url = ''], folder) => ['curl', ['-s', '-o', join(folder, 'large'), url]];

/** How many seconds a program took, and how many until its files were on the disk. */
export type Took = { readonly seconds: number; readonly durableSeconds: number };

/**
 * Returns null if the program is not installed. The programs leave their files in the page cache, where a power failure loses them, and Millrace flushes each
 * file before it reports it. `sync -f` then writes what the program left.
 */
export async function runProgram(program: Program, urls: readonly string[], folder: string): Promise<Took | null> {
  const [command, args] = await program(urls, folder);
  const startMs = performance.now();
  if ((await exitCodeOf(command, args)) === null) return null;
  const seconds = (performance.now() - startMs) / 1_000;
  await exitCodeOf('sync', ['-f', folder]);
  return { seconds, durableSeconds: (performance.now() - startMs) / 1_000 };
}

async function exitCodeOf(command: string, args: readonly string[]): Promise<number | null> {
  const child = spawn(command, args, { stdio: 'ignore' });
  const ended = await once(child, 'exit').then(
    ([code]) => code as number,
    () => null,
  );
  if (ended !== null && ended !== 0) throw new Error(`${command} ended with ${ended}`);
  return ended;
}
