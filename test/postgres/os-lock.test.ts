import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { lockWithin, tryLock } from '../../src/postgres/os-lock.ts';
import { makeScratch, type Scratch } from './scratch.ts';

let scratch: Scratch;
beforeAll(async () => {
  scratch = await makeScratch();
});
afterAll(() => scratch.remove());

const MODULE = new URL('../../src/postgres/os-lock.ts', import.meta.url).href;

/** Node before 22.13 makes a folder. Every Node uses what is there. */
const KINDS = ['file', 'folder'] as const;

function pathOf(name: string, kind: (typeof KINDS)[number]): string {
  const path = join(scratch.path, `${name}-${kind}`);
  if (kind === 'folder') mkdirSync(path);
  return path;
}

it.each(KINDS)('a lock is held once, also inside one process, until it is released (%s)', async (kind) => {
  const path = pathOf('own', kind);
  const lock = tryLock(path);
  expect(lock).not.toBeNull();
  // A refused attempt must not drop the lock of the holder in the same process.
  expect(tryLock(path)).toBeNull();
  expect(tryLock(path)).toBeNull();
  expect(await lockWithin(path, 50)).toBeNull();
  const waiting = lockWithin(path, 10_000);
  lock?.release();
  const second = await waiting;
  expect(second).not.toBeNull();
  second?.release();
});

it.each(KINDS)('a lock of a process that is killed is free at once, and nothing is printed by taking one (%s)', async (kind) => {
  const path = pathOf('other', kind);
  const script = `import { tryLock } from ${JSON.stringify(MODULE)};
    globalThis.held = tryLock(${JSON.stringify(path)});
    console.log('held');
    setInterval(() => {}, 1000);`;
  const holder = spawn(process.execPath, ['--input-type=module', '-e', script]);
  const exited = once(holder, 'exit');
  const printed: string[] = [];
  holder.stderr.on('data', (chunk) => printed.push(String(chunk)));
  await once(holder.stdout, 'data');
  expect(tryLock(path)).toBeNull();
  holder.kill('SIGKILL');
  await exited;
  const lock = tryLock(path);
  expect(lock).not.toBeNull();
  lock?.release();
  expect(printed).toEqual([]);
});

it.each(KINDS)('processes that take turns never hold a lock together, and leave nothing to pile up (%s)', async (kind) => {
  const path = pathOf('turns', kind);
  const counter = join(scratch.path, `counter-${kind}`);
  writeFileSync(counter, '0');
  const script = `import { readFileSync, writeFileSync } from 'node:fs';
    import { lockWithin } from ${JSON.stringify(MODULE)};
    for (let turn = 0; turn < 25; turn++) {
      const lock = await lockWithin(${JSON.stringify(path)}, 60_000);
      writeFileSync(${JSON.stringify(counter)}, String(Number(readFileSync(${JSON.stringify(counter)}, 'utf8')) + 1));
      lock.release();
    }`;
  const workers = [1, 2, 3].map(() => spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: 'inherit' }));
  await Promise.all(workers.map((worker) => once(worker, 'exit')));
  expect(readFileSync(counter, 'utf8')).toBe('75');
  if (kind === 'folder') expect(readdirSync(path).length).toBe(1);
});
