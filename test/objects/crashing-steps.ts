/**
 * Loaded into every thread of the crashing writer. A step is a call that changes the file system. Of the writes in a row only two are
 * steps. At the step the process kills itself, or the disk is full from then on.
 */
import fs from 'node:fs';
import promises, { open } from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { devNull } from 'node:os';
import { getEnvironmentData, isMainThread, setEnvironmentData } from 'node:worker_threads';

const LEFT = 0;
const WRITES = 1;

type Plan = { readonly root: string; readonly ending: string; readonly counts: Int32Array };

function planOfMainThread(): Plan {
  const [root = '', , ending = '', step] = process.argv.slice(2);
  const counts = new Int32Array(new SharedArrayBuffer(8));
  counts[LEFT] = Number(step);
  const plan = { root, ending, counts };
  setEnvironmentData('plan', plan);
  return plan;
}

/** The threads count together. */
const { root, ending, counts } = isMainThread ? planOfMainThread() : (getEnvironmentData('plan') as unknown as Plan);

/** Space is needed by these only. */
const NEEDS_SPACE = new Set(['open', 'mkdir', 'link', 'write', 'writeFile', 'sync', 'fsync', 'rename']);

function atStep(name: string): void {
  if (name === 'write' && Atomics.load(counts, LEFT) > 0 && Atomics.add(counts, WRITES, 1) >= 2) return;
  if (Atomics.sub(counts, LEFT, 1) > 1) return;
  if (ending === 'kill') process.kill(process.pid, 'SIGKILL');
  if (NEEDS_SPACE.has(name)) throw Object.assign(new Error('ENOSPC: no space left on device'), { code: 'ENOSPC' });
}

type Calls = Record<string, (...given: unknown[]) => unknown>;

function intercept(calls: Calls, names: readonly string[]): void {
  for (const name of names) {
    const original = calls[name]!;
    calls[name] = async function (this: unknown, ...given) {
      atStep(name);
      return original.apply(this, given);
    };
  }
}

function interceptSync(calls: Calls, names: readonly string[]): void {
  for (const name of names) {
    const original = calls[`${name}Sync`]!;
    calls[`${name}Sync`] = function (this: unknown, ...given) {
      // Node loads modules with the same calls.
      const [target] = given;
      if (typeof target === 'number' || String(target).startsWith(root)) atStep(name);
      return original.apply(this, given);
    };
  }
}

const handle = await open(devNull);
const handles = Object.getPrototypeOf(handle) as Calls;
await handle.close();
intercept(promises as unknown as Calls, ['open', 'mkdir', 'link', 'rename', 'unlink', 'rmdir']);
intercept(handles, ['write', 'writeFile', 'sync', 'utimes', 'truncate']);
interceptSync(fs as unknown as Calls, ['open', 'mkdir', 'link', 'rename', 'unlink', 'write', 'fsync', 'futimes']);
syncBuiltinESMExports();
