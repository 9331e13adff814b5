import { spawn } from 'node:child_process';
import { once } from 'node:events';
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

it('a lock is held once, also inside one process, until it is released', async () => {
  const path = join(scratch.path, 'own');
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

it('a lock of a process that is killed is free at once, and nothing is printed by taking one', async () => {
  const path = join(scratch.path, 'other');
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
