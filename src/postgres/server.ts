/** Starts, finds and stops the server of one data folder. The caller holds the home's lock. */
import { type ChildProcess, spawn } from 'node:child_process';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { AppError } from '../core/errors.ts';
import type { Account } from './account.ts';
import type { Binaries } from './binaries.ts';
import { diskFull, failure } from './failure.ts';
import { isPidTaken, isPostmasterOf, readPostmaster } from './postmaster.ts';
import { identity, runTool } from './run-tool.ts';
import { lastLines, openServerLog, type ServerLog } from './server-log.ts';

const POLL_MS = 20;
/** Crash recovery replays at most max_wal_size, which a slow disk needs minutes for. */
const START_TIMEOUT_MS = 10 * 60_000;
/** Orphaned backends of a killed server notice within moments; until then it cannot be started again. */
const LINGER_TIMEOUT_MS = 30_000;
const STOP_TIMEOUT_SECONDS = 60;
const PORT_ATTEMPTS = 5;

export type ServerParams = {
  dataFolder: string;
  logFile: string;
  account: Account | null;
  binaries: Binaries;
  /** Asked again with a higher attempt when the port was taken between choice and start. */
  choosePort: (attempt: number) => Promise<number>;
};

type StartResult = { kind: 'ready' } | { kind: 'port-taken' } | { kind: 'lingering' } | { kind: 'failed'; log: string };

/** Returns the port of the running server, started now or found. */
export async function ensureServer(params: ServerParams): Promise<number> {
  const lingerDeadline = performance.now() + LINGER_TIMEOUT_MS;
  let attempt = 0;
  for (;;) {
    const found = await findServer(params.dataFolder);
    if (found !== null) return found;
    const port = await params.choosePort(attempt);
    const result = await startServer(params, port);
    if (result.kind === 'ready') return port;
    if (result.kind === 'failed') throw startFailed(params, result.log);
    if (result.kind === 'port-taken') {
      attempt += 1;
      if (attempt >= PORT_ATTEMPTS) throw portTaken(port);
    } else {
      if (performance.now() > lingerDeadline) throw startFailed(params, await lastLines(params.logFile));
      await delay(100);
    }
  }
}

/**
 * The port of a server that already serves this folder, after waiting for it to finish starting; `null` when none
 * does.
 */
async function findServer(dataFolder: string): Promise<number | null> {
  const deadline = performance.now() + START_TIMEOUT_MS;
  for (;;) {
    const postmaster = readPostmaster(dataFolder);
    if (postmaster === null) return null;
    if (!(await isPostmasterOf(postmaster.pid, dataFolder))) {
      // PostgreSQL would take any process of its own account, even a zombie, for its predecessor and refuse to start.
      if (isPidTaken(postmaster.pid)) await rm(join(dataFolder, 'postmaster.pid'), { force: true });
      return null;
    }
    if (postmaster.isReady && postmaster.port !== null) return postmaster.port;
    if (performance.now() > deadline) return null;
    await delay(POLL_MS);
  }
}

/** Detached: in a process group of its own, so that Ctrl-C in the terminal reaches the program but not its database. */
async function startServer(params: ServerParams, port: number): Promise<StartResult> {
  const log = await openServerLog(params.logFile);
  try {
    const child = spawn(params.binaries.postgres, serverArgs(params.dataFolder, port), {
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

function serverArgs(dataFolder: string, port: number): string[] {
  const settings = {
    port: String(port),
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '',
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

function explainExit(log: string): StartResult {
  if (/could not bind IPv4 address|could not create any TCP\/IP sockets/.test(log)) return { kind: 'port-taken' };
  if (/pre-existing shared memory block|lock file "postmaster.pid" already exists/.test(log))
    return { kind: 'lingering' };
  return { kind: 'failed', log };
}

/** Fast: running statements are cut off and rolled back, what was committed is on disk. */
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
    `The embedded PostgreSQL did not start. Correct what its log reports (${params.logFile}), ` +
      `or set DATABASE_URL to a server of your own:\n${tail}`,
  );
}

function portTaken(port: number): AppError {
  return failure(
    'EMBEDDED_PORT_TAKEN',
    `The embedded PostgreSQL tried ${PORT_ATTEMPTS} ports of 127.0.0.1, last ${port}, ` +
      'and each was taken by another program before it could listen. Start again, or set DATABASE_URL to a server of your own.',
  );
}
