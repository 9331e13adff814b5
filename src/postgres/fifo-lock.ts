/**
 * A lock for Node versions without SQLite: a folder of numbered FIFOs. The holder keeps the FIFO with the highest number open for
 * reading. Opening it for writing fails once the holder has ended, because the operating system closed it.
 *
 * Numbers only grow, and a FIFO gets its number when its maker has already opened it. So a FIFO without a reader never gets one
 * again, and only one process can take the next number.
 */
import { spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { closeSync, constants, linkSync, openSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { codeOf, failure } from './failure.ts';

/** Returns a function that releases the lock, or null when this process or another one holds it. */
export function tryFifoLock(folder: string): (() => void) | null {
  const last = highestIn(folder);
  if (last > 0 && hasReader(join(folder, String(last)))) return null;
  const unnumbered = join(folder, `new-${randomUUID()}`);
  const descriptor = makeFifo(unnumbered);
  const mine = join(folder, String(last + 1));
  if (!takeNumber(unnumbered, mine)) {
    closeSync(descriptor);
    return null;
  }
  // Another process was faster, and has removed the FIFO with this number.
  if (highestIn(folder) !== last + 1) {
    closeSync(descriptor);
    rmSync(mine, { force: true });
    return null;
  }
  for (const number of numbersIn(folder)) {
    if (number <= last) rmSync(join(folder, String(number)), { force: true });
  }
  return () => closeSync(descriptor);
}

const numbersIn = (folder: string): number[] => readdirSync(folder).map(Number).filter(Number.isInteger);
const highestIn = (folder: string): number => Math.max(0, ...numbersIn(folder));

function hasReader(fifo: string): boolean {
  try {
    closeSync(openSync(fifo, constants.O_WRONLY | constants.O_NONBLOCK));
    return true;
  } catch (error) {
    // A holder with a higher number has removed it. The caller cannot have the lock.
    if (codeOf(error) === 'ENOENT') return true;
    if (codeOf(error) === 'ENXIO') return false;
    throw error;
  }
}

/** Everyone who may enter the folder may test the lock, also after root held it. */
function makeFifo(path: string): number {
  const { status, error, stderr } = spawnSync('mkfifo', ['-m', '666', path], { encoding: 'utf8' });
  if (status !== 0) {
    throw failure(
      'EMBEDDED_UNSUPPORTED_PLATFORM',
      `The embedded PostgreSQL cannot lock its home with Node ${process.versions.node} (mkfifo: ${(error?.message ?? stderr).trim()}). ` +
        'Install Node 22.13 or newer, or set DATABASE_URL to a PostgreSQL server, version 15 or newer.',
      error,
    );
  }
  return openSync(path, constants.O_RDWR | constants.O_NONBLOCK);
}

function takeNumber(from: string, to: string): boolean {
  try {
    linkSync(from, to);
    return true;
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error;
    return false;
  } finally {
    rmSync(from, { force: true });
  }
}
