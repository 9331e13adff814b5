import { spawn } from 'node:child_process';
import type { Account } from './account.ts';

export type ToolResult = { exitCode: number | null; output: string; spawnError: Error | null };

/** Runs one of PostgreSQL's programs to its end, as the server's account. Never throws: the caller reads the result. */
export function runTool(params: {
  file: string;
  args: readonly string[];
  account: Account | null;
}): Promise<ToolResult> {
  return new Promise((resolve) => {
    let output = '';
    const child = spawn(params.file, params.args, {
      ...identity(params.account),
      // Out of reach of the terminal's Ctrl-C, which must not cut a shutdown short.
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

/** The working folder is the root because the account may not enter the one this program was started in. */
export function identity(account: Account | null) {
  const ids = account === null ? {} : { uid: account.uid, gid: account.gid };
  return { ...ids, cwd: process.platform === 'win32' ? undefined : '/', env: toolEnvironment() };
}

/**
 * PG* would redirect the programs to another server; the messages are read by this program, so they must be English.
 */
function toolEnvironment(): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(([name]) => !name.startsWith('PG') && !/^(LC_|LANG)/.test(name));
  return { ...Object.fromEntries(kept), LC_ALL: 'C' };
}
