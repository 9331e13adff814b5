/** Reads postmaster.pid, and checks whether that process is really the server. */
import { execFile } from 'node:child_process';
import { readFileSync, readlinkSync, realpathSync } from 'node:fs';
import { basename, join } from 'node:path';
import { promisify } from 'node:util';
import type { Address } from './address.ts';
import { codeOf } from './failure.ts';

/** `address` is null until the server listens. */
export type Postmaster = { pid: number; address: Address | null; isReady: boolean };

export function readPostmaster(dataFolder: string): Postmaster | null {
  let lines: string[];
  try {
    lines = readFileSync(join(dataFolder, 'postmaster.pid'), 'utf8').split('\n');
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return null;
    throw error;
  }
  const pid = Math.abs(Number.parseInt(lines[0] ?? '', 10));
  const port = Number.parseInt(lines[3] ?? '', 10);
  // The folder of the first Unix socket, then the first address for TCP.
  const host = lines[4]?.trim() || lines[5]?.trim() || '';
  return {
    pid: Number.isNaN(pid) ? 0 : pid,
    address: host === '' || Number.isNaN(port) ? null : { host, port },
    isReady: lines[7]?.trim() === 'ready',
  };
}

/** Excludes zombies, which still accept signal 0. */
export function isAlive(pid: number): boolean {
  return isPidTaken(pid) && processState(pid) !== 'Z';
}

/** PostgreSQL's own check of the pid in its file, which counts zombies. */
export function isPidTaken(pid: number): boolean {
  if (pid <= 0) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return codeOf(error) === 'EPERM';
  }
}

/**
 * After a crash, another program may have the pid that PostgreSQL's file names. So the process counts as the server only if it uses the
 * data folder. Its arguments are checked first, because root in a container cannot always read the working folder of other users' processes.
 */
export async function isPostmasterOf(pid: number, dataFolder: string): Promise<boolean> {
  if (!isAlive(pid)) return false;
  if (process.platform === 'linux') {
    const [program = '', ...args] = commandLine(pid);
    if (!basename(program).startsWith('postgres')) return false;
    return args.includes(dataFolder) || workingFolder(pid) === realpathSync(dataFolder);
  }
  if (process.platform === 'win32') return commandContains('tasklist', ['/FI', `PID eq ${pid}`, '/NH'], 'postgres');
  return commandContains('ps', ['-o', 'command=', '-p', String(pid)], dataFolder);
}

function commandLine(pid: number): string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
  } catch {
    return [];
  }
}

function workingFolder(pid: number): string | null {
  try {
    return readlinkSync(`/proc/${pid}/cwd`);
  } catch {
    return null;
  }
}

function processState(pid: number): string | null {
  if (process.platform !== 'linux') return null;
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return stat.slice(stat.lastIndexOf(')') + 2, stat.lastIndexOf(')') + 3);
  } catch {
    return null;
  }
}

async function commandContains(file: string, args: string[], text: string): Promise<boolean> {
  try {
    const { stdout } = await promisify(execFile)(file, args);
    return stdout.includes(text);
  } catch {
    return false;
  }
}
