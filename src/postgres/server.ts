/** Starts, finds and stops the server of a data folder. The caller must hold the lock of the home. */
import { type ChildProcess, spawn } from 'node:child_process';
import { type FileHandle, open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { AppError } from '../core/errors.ts';
import type { Account } from './account.ts';
import { type Address, isSocket, prepareSocketFolder } from './address.ts';
import type { Binaries } from './binaries.ts';
import { codeOf, diskFull, failure } from './failure.ts';
import { isPidTaken, isPostmasterOf, readPostmaster } from './postmaster.ts';
import { identity, runTool } from './run-tool.ts';

const POLL_MS = 20;
/** Crash recovery replays up to max_wal_size, which takes minutes on a slow disk. */
const START_TIMEOUT_MS = 10 * 60_000;
/** Backends of a killed server end soon, and a new server cannot start before. */
const LINGER_TIMEOUT_MS = 30_000;
const STOP_TIMEOUT_SECONDS = 60;
const ADDRESS_ATTEMPTS = 5;
const MAX_LOG_BYTES = 10 * 1024 * 1024;
const LOG_TAIL_BYTES = 16 * 1024;

export type ServerParams = {
  dataFolder: string;
  logFile: string;
  account: Account | null;
  binaries: Binaries;
  /** Called again with a higher attempt when the server cannot listen there. */
  chooseAddress: (attempt: number) => Promise<Address>;
};

type StartResult = { kind: 'ready' } | { kind: 'address-unusable' } | { kind: 'lingering' } | { kind: 'failed'; log: string };

/** Returns the address of the running server. Starts it if necessary. */
export async function ensureServer(params: ServerParams): Promise<Address> {
  const lingerDeadline = performance.now() + LINGER_TIMEOUT_MS;
  let attempt = 0;
  for (;;) {
    const found = await findServer(params.dataFolder);
    if (found !== null) return found;
    const address = await params.chooseAddress(attempt);
    const result = await startServer(params, address);
    if (result.kind === 'ready') return address;
    if (result.kind === 'failed') throw startFailed(params, result.log);
    if (result.kind === 'address-unusable') {
      attempt += 1;
      if (attempt >= ADDRESS_ATTEMPTS)
        throw isSocket(address) ? startFailed(params, await readFrom(params.logFile, 0)) : portTaken(address);
    } else {
      if (performance.now() > lingerDeadline) throw startFailed(params, await readFrom(params.logFile, 0));
      await delay(100);
    }
  }
}

/** The address of a server that already uses this folder, once it is ready; null when there is none. */
async function findServer(dataFolder: string): Promise<Address | null> {
  const deadline = performance.now() + START_TIMEOUT_MS;
  for (;;) {
    const postmaster = readPostmaster(dataFolder);
    if (postmaster === null) return null;
    if (!(await isPostmasterOf(postmaster.pid, dataFolder))) {
      // PostgreSQL would take any process with that pid, even a zombie, for a running server and refuse to start.
      if (isPidTaken(postmaster.pid)) await rm(join(dataFolder, 'postmaster.pid'), { force: true });
      return null;
    }
    if (postmaster.isReady && postmaster.address !== null) return postmaster.address;
    if (performance.now() > deadline) return null;
    await delay(POLL_MS);
  }
}

/** Detached, so that Ctrl-C in the terminal does not reach the database. */
async function startServer(params: ServerParams, address: Address): Promise<StartResult> {
  if (isSocket(address)) await prepareSocketFolder(address.host, params.account);
  const log = await openServerLog(params.logFile);
  try {
    const child = spawn(params.binaries.postgres, serverArgs(params.dataFolder, address), {
      ...identity(params.account),
      detached: true,
      windowsHide: true,
      stdio: ['ignore', log.fd, log.fd],
    });
    child.unref();
    return await awaitReady({ child, log, dataFolder: params.dataFolder });
  } finally {
    await log.close();
  }
}

function serverArgs(dataFolder: string, address: Address): string[] {
  const settings = {
    port: String(address.port),
    listen_addresses: isSocket(address) ? '' : address.host,
    // A list, so a name with a comma or a space needs quotes.
    unix_socket_directories: isSocket(address) ? `"${address.host.replaceAll('"', '""')}"` : '',
    unix_socket_permissions: '0700',
    fsync: 'on',
    synchronous_commit: 'on',
    full_page_writes: 'on',
    logging_collector: 'off',
    log_destination: 'stderr',
  };
  return ['-D', dataFolder, ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])];
}

async function awaitReady(params: { child: ChildProcess; log: ServerLog; dataFolder: string }): Promise<StartResult> {
  const { child, log, dataFolder } = params;
  let spawnError: Error | undefined;
  child.once('error', (error) => {
    spawnError = error;
  });
  const deadline = performance.now() + START_TIMEOUT_MS;
  for (;;) {
    await delay(POLL_MS);
    if (spawnError !== undefined) return { kind: 'failed', log: spawnError.message };
    if (child.exitCode !== null || child.signalCode !== null) return explainExit(await log.written());
    const postmaster = readPostmaster(dataFolder);
    if (postmaster?.pid === child.pid && postmaster?.isReady) return { kind: 'ready' };
    if (performance.now() > deadline) return { kind: 'failed', log: await log.written() };
  }
}

const CANNOT_LISTEN = /could not bind (?:IPv4|Unix) address|could not create any (?:TCP\/IP|Unix-domain) sockets/;

function explainExit(log: string): StartResult {
  if (CANNOT_LISTEN.test(log)) return { kind: 'address-unusable' };
  if (/pre-existing shared memory block|lock file "postmaster.pid" already exists/.test(log)) return { kind: 'lingering' };
  return { kind: 'failed', log };
}

/** Rolls back running transactions. Committed data is on disk. */
export async function stopServer(params: Pick<ServerParams, 'dataFolder' | 'account' | 'binaries'>): Promise<boolean> {
  const { dataFolder, account, binaries } = params;
  for (const mode of ['fast', 'immediate']) {
    const postmaster = readPostmaster(dataFolder);
    if (postmaster === null || !(await isPostmasterOf(postmaster.pid, dataFolder))) return true;
    const args = ['stop', '-D', dataFolder, '-m', mode, '-w', '-t', String(STOP_TIMEOUT_SECONDS)];
    const { exitCode } = await runTool({ file: binaries.pgCtl, args, account });
    if (exitCode !== 0) continue;
    while (await isPostmasterOf(postmaster.pid, dataFolder)) await delay(POLL_MS);
    return true;
  }
  return false;
}

function startFailed(params: ServerParams, log: string): AppError {
  const diskLines = log.split('\n').filter((line) => /No space left on device|Disk quota exceeded/.test(line));
  if (diskLines.some((line) => !line.includes('shared memory'))) return diskFull(params.dataFolder);
  const tail = log.trim().split('\n').slice(-15).join('\n');
  return failure(
    'EMBEDDED_START_FAILED',
    `The embedded PostgreSQL did not start. Correct the error in its log (${params.logFile}), ` +
      `or set DATABASE_URL to a PostgreSQL server:\n${tail}`,
  );
}

function portTaken({ host, port }: Address): AppError {
  return failure(
    'EMBEDDED_PORT_TAKEN',
    `The embedded PostgreSQL tried ${ADDRESS_ATTEMPTS} ports of ${host}, last ${port}, ` +
      'and another program was using each of them. Start again, or set DATABASE_URL to a PostgreSQL server.',
  );
}

type ServerLog = {
  fd: number;
  /** The last lines since the log was opened. */
  written(): Promise<string>;
  close(): Promise<void>;
};

/** Empties a log that has grown too large. */
async function openServerLog(path: string): Promise<ServerLog> {
  const file = await open(path, 'a', 0o600);
  if ((await file.stat()).size > MAX_LOG_BYTES) await file.truncate();
  const { size } = await file.stat();
  return { fd: file.fd, written: () => readFrom(path, size), close: () => file.close() };
}

async function readFrom(path: string, offset: number): Promise<string> {
  let file: FileHandle | undefined;
  try {
    file = await open(path, 'r');
    const { size } = await file.stat();
    const position = Math.max(offset, size - LOG_TAIL_BYTES);
    const buffer = Buffer.alloc(Math.max(0, size - position));
    await file.read(buffer, 0, buffer.length, position);
    return buffer.toString('utf8');
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return '';
    throw error;
  } finally {
    await file?.close();
  }
}
