/**
 * A lock on a file that the operating system drops when its holder dies, however it dies.
 *
 * Node has no call for file locks, but the SQLite it carries takes them on every platform (fcntl, LockFileEx).
 * Nothing is ever stored: an exclusive transaction is opened on an empty file and stays open.
 * The file must not be opened in any other way, since closing any descriptor of it would drop a POSIX lock.
 */
import type { DatabaseSync } from 'node:sqlite';
import { setTimeout as delay } from 'node:timers/promises';

const SQLITE_BUSY = 5;
const POLL_MS = 20;

export type OsLock = { path: string; release(): void };

/** One attempt. `null` means that someone alive holds it, in this process or in another. */
export function tryLock(path: string): OsLock | null {
  const database = openLockFile(path);
  try {
    database.exec('PRAGMA journal_mode=MEMORY; BEGIN EXCLUSIVE');
    return { path, release: () => database.close() };
  } catch (error) {
    database.close();
    if (isBusy(error)) return null;
    throw error;
  }
}

/** Waits for the lock; `null` when it was not free within the time. */
export async function lockWithin(path: string, timeoutMs: number): Promise<OsLock | null> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    const lock = tryLock(path);
    if (lock !== null) return lock;
    if (performance.now() > deadline) return null;
    await delay(POLL_MS);
  }
}

function openLockFile(path: string): DatabaseSync {
  const { DatabaseSync } = loadSqlite();
  return new DatabaseSync(path, { timeout: 0 });
}

type Sqlite = typeof import('node:sqlite');
let sqlite: Sqlite | undefined;

/**
 * Older Node versions announce SQLite as experimental on stderr; only its locks are used here, so that line is noise.
 */
function loadSqlite(): Sqlite {
  if (sqlite !== undefined) return sqlite;
  const emitWarning = process.emitWarning;
  process.emitWarning = () => undefined;
  try {
    sqlite = process.getBuiltinModule('node:sqlite');
    return sqlite;
  } finally {
    process.emitWarning = emitWarning;
  }
}

function isBusy(error: unknown): boolean {
  if (typeof error !== 'object' || error === null || !('errcode' in error)) return false;
  // The low byte is the plain code; the rest says why.
  return typeof error.errcode === 'number' && (error.errcode & 0xff) === SQLITE_BUSY;
}
