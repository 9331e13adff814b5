/**
 * A file lock that the operating system releases when the process of its holder ends.
 *
 * Node has no file locks, but its SQLite takes them on every platform (fcntl, LockFileEx). An exclusive transaction on an empty file
 * holds the lock; nothing is stored. Nothing else may open the file, because closing any descriptor of it releases a POSIX lock.
 */
import { chmodSync, closeSync, openSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { codeOf, failure } from './failure.ts';

const SQLITE_BUSY = 5;
const POLL_MS = 20;

export type OsLock = { path: string; release(): void };

/** Tries once. Returns null when this process or another one holds the lock. */
export function tryLock(path: string): OsLock | null {
  const { DatabaseSync } = loadSqlite();
  makePrivate(path);
  const database = new DatabaseSync(path, { timeout: 0 });
  try {
    database.exec('PRAGMA journal_mode=MEMORY; BEGIN EXCLUSIVE');
    return { path, release: () => database.close() };
  } catch (error) {
    database.close();
    if (isBusy(error)) return null;
    throw error;
  }
}

/** Whoever can open the file can lock it, and so stop every start. SQLite would create it readable for everybody. */
function makePrivate(path: string): void {
  try {
    closeSync(openSync(path, 'wx', 0o600));
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error;
    // By its name: closing a descriptor of this file would release our own lock on it.
    chmodSync(path, 0o600);
  }
}

/** Waits for the lock. Returns null after the timeout. */
export async function lockWithin(path: string, timeoutMs: number): Promise<OsLock | null> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    const lock = tryLock(path);
    if (lock !== null) return lock;
    if (performance.now() > deadline) return null;
    await delay(POLL_MS);
  }
}

type Sqlite = typeof import('node:sqlite');
let sqlite: Sqlite | undefined;

/** Suppresses the warning of older Node versions that SQLite is experimental: only its locks are used. */
function loadSqlite(): Sqlite {
  if (sqlite !== undefined) return sqlite;
  const emitWarning = process.emitWarning;
  process.emitWarning = () => undefined;
  try {
    sqlite = process.getBuiltinModule('node:sqlite');
  } finally {
    process.emitWarning = emitWarning;
  }
  if (sqlite === undefined) {
    throw failure(
      'EMBEDDED_UNSUPPORTED_PLATFORM',
      `The embedded PostgreSQL needs Node 22.13 or newer, and this is ${process.versions.node}. ` +
        'Install a newer Node, or set DATABASE_URL to a PostgreSQL server, version 15 or newer.',
    );
  }
  return sqlite;
}

function isBusy(error: unknown): boolean {
  if (typeof error !== 'object' || error === null || !('errcode' in error)) return false;
  // The low byte is the primary result code.
  return typeof error.errcode === 'number' && (error.errcode & 0xff) === SQLITE_BUSY;
}
