/** Reads what a running server says about itself in postmaster.pid, and whether that process is really it. */
import { execFile } from 'node:child_process';
import { readFileSync, readlinkSync, realpathSync } from 'node:fs';
import { basename, join } from 'node:path';
import { promisify } from 'node:util';
import { codeOf } from './failure.ts';

export type Postmaster = { pid: number; port: number | null; isReady: boolean };

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
  return {
    pid: Number.isNaN(pid) ? 0 : pid,
    port: Number.isNaN(port) ? null : port,
    isReady: lines[7]?.trim() === 'ready',
  };
}

/** Alive and not a zombie: an orphan that nobody reaps still answers signal 0. */
export function isAlive(pid: number): boolean {
  return isPidTaken(pid) && processState(pid) !== 'Z';
}

/** What PostgreSQL asks of the pid in its file: does anything answer to it, a zombie included? */
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
 * After a crash the pid in the file may belong to any other program: the server is known by the folder it serves.
 * Its arguments come first because a container's root may not look into another account's working folder.
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
