import { spawn } from 'node:child_process';
import type { Account } from './account.ts';

export type ToolResult = { exitCode: number | null; output: string; spawnError: Error | null };

/** Runs a program as the server's account until it ends. Never throws. */
export function runTool(params: { file: string; args: readonly string[]; account: Account | null }): Promise<ToolResult> {
  return new Promise((resolve) => {
    let output = '';
    const child = spawn(params.file, params.args, {
      ...identity(params.account),
      // Ctrl-C in the terminal must not interrupt a shutdown.
      detached: true,
      windowsHide: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const gather = (chunk: Buffer) => {
      output = (output + chunk.toString('utf8')).slice(-20_000);
    };
    child.stdout.on('data', gather);
    child.stderr.on('data', gather);
    child.once('error', (spawnError) => resolve({ exitCode: null, output, spawnError }));
    child.once('close', (exitCode) => resolve({ exitCode, output, spawnError: null }));
  });
}

/** The working folder is /, because the account may be unable to enter the current one. */
export function identity(account: Account | null) {
  const ids = account === null ? {} : { uid: account.uid, gid: account.gid };
  return { ...ids, cwd: process.platform === 'win32' ? undefined : '/', env: toolEnvironment() };
}

/** What a program needs to find its libraries and a place for temporary files. */
const PASSED_ON: ReadonlySet<string> = new Set([
  'PATH',
  'LD_LIBRARY_PATH',
  'DYLD_LIBRARY_PATH',
  'TMPDIR',
  'TEMP',
  'TMP',
  'SystemRoot',
  'windir',
]);

/**
 * Nothing else: the account of the server could read the secrets of our environment there, and PG* variables would select another
 * server. The locale is fixed, because this program reads the English messages.
 */
function toolEnvironment(): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(([name]) => PASSED_ON.has(name));
  return { ...Object.fromEntries(kept), LC_ALL: 'C' };
}
