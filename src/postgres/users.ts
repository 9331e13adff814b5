/**
 * Who uses the server of a home. Each user holds an operating-system lock on a file of its own, so the dead are told
 * from the living by trying their lock: no process ids that may be reused, no clocks.
 * Every function here expects its caller to hold the home's own lock.
 */
import { randomUUID } from 'node:crypto';
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { giveToOwner, type Home } from './home.ts';
import { type OsLock, tryLock } from './os-lock.ts';

export async function joinUsers(home: Home, isRoot: boolean): Promise<OsLock> {
  const path = join(home.usersFolder, `${process.pid}-${randomUUID()}`);
  const lock = tryLock(path);
  if (lock === null) throw new Error(`the new file ${path} is already locked`);
  await giveToOwner(home, path, isRoot);
  return lock;
}

export async function leaveUsers(lock: OsLock): Promise<void> {
  lock.release();
  await rm(lock.path, { force: true });
}

/** Counts the living and sweeps away what the dead left. */
export async function countLiveUsers(home: Home): Promise<number> {
  let live = 0;
  for (const name of await readdir(home.usersFolder)) {
    const path = join(home.usersFolder, name);
    const lock = tryLock(path);
    if (lock === null) live += 1;
    else await leaveUsers(lock);
  }
  return live;
}
