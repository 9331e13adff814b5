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

/** Returns how many seconds it took, or null if the program is not installed. */
export async function runProgram(program: Program, urls: readonly string[], folder: string): Promise<number | null> {
  const [command, args] = await program(urls, folder);
  const startMs = performance.now();
  const child = spawn(command, args, { stdio: 'ignore' });
  const ended = await once(child, 'exit').then(
    ([code]) => code as number,
    () => null,
  );
  if (ended === null) return null;
  if (ended !== 0) throw new Error(`${command} ended with ${ended}`);
  return (performance.now() - startMs) / 1_000;
}
