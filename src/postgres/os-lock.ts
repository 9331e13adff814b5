/**
 * A file lock that the operating system releases when the process of its holder ends.
 *
 * Node has no file locks, but its SQLite takes them on every platform (fcntl, LockFileEx). An exclusive transaction on an empty file
 * holds the lock; nothing is stored. Nothing else may open the file, because closing any descriptor of it releases a POSIX lock.
 *
 * Node before 22.13 has no SQLite. It makes a folder instead, which every Node can lock. What is there decides for all processes.
 */
import { chmodSync, closeSync, lstatSync, mkdirSync, openSync } from 'node:fs';
import { dirname } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { AppError } from '../core/errors.ts';
import { codeOf, failure } from './failure.ts';
import { tryFifoLock } from './fifo-lock.ts';

const SQLITE_BUSY = 5;
const POLL_MS = 20;

export type OsLock = { path: string; release(): void };

/** Tries once. Returns null when this process or another one holds the lock. A new lock is of the same kind as the one at `like`. */
export function tryLock(path: string, like: string = path): OsLock | null {
  return kindOf(like) === 'folder' ? tryFolder(path) : tryFile(path);
}

function kindOf(path: string): 'file' | 'folder' {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found !== undefined) return found.isDirectory() ? 'folder' : 'file';
  return loadSqlite() === undefined && process.platform !== 'win32' ? 'folder' : 'file';
}

function tryFolder(path: string): OsLock | null {
  try {
    mkdirSync(path, { mode: 0o700 });
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error;
    if (kindOf(path) === 'file') return null; // Another Node made it just now. The next try finds a file.
  }
  const release = tryFifoLock(path);
  return release === null ? null : { path, release };
}

function tryFile(path: string): OsLock | null {
  const loaded = loadSqlite();
  if (loaded === undefined) throw needsSqlite(path);
  makePrivate(path);
  if (kindOf(path) === 'folder') return null; // Another Node made it just now. The next try finds a folder.
  const database = new loaded.DatabaseSync(path, { timeout: 0 });
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
    if (kindOf(path) === 'file') chmodSync(path, 0o600);
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
function loadSqlite(): Sqlite | undefined {
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

function needsSqlite(path: string): AppError {
  const reason =
    process.platform === 'win32' ? 'On Windows, the embedded PostgreSQL' : `${dirname(path)} was created with a newer Node and`;
  return failure(
    'EMBEDDED_UNSUPPORTED_PLATFORM',
    `${reason} needs Node 22.13 or newer, and this is ${process.versions.node}. Install a newer Node, set MILLRACE_HOME to another ` +
      'folder, or set DATABASE_URL to a PostgreSQL server, version 15 or newer.',
  );
}

function isBusy(error: unknown): boolean {
  if (typeof error !== 'object' || error === null || !('errcode' in error)) return false;
  // The low byte is the primary result code.
  return typeof error.errcode === 'number' && (error.errcode & 0xff) === SQLITE_BUSY;
}
