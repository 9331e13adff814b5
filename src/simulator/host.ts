import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { AppError } from '../core/errors.ts';
import { ExecutionApi } from './api.ts';

export type Away = { readonly fromMs: number; readonly toMs: number };

/** The server under test. */
export type Host = {
  readonly url: string;
  /** Restarts the server so that it is down at `untilMs`, if possible. Null: it cannot be restarted. */
  readonly restart: ((untilMs: number) => Promise<Away>) | null;
  close(): Promise<void>;
};

const BACK_WITHIN_MS = 120_000;
const EVERY_MS = 100;
/** The restart command starts this long before the time at which the server must be down. */
const AHEAD_MS = 500;

/** A server that runs already. */
export async function remoteHost({ url, restart }: { url: string; restart?: string }): Promise<Host> {
  await answers(url, 0);
  return {
    url,
    restart: restart === undefined ? null : (untilMs) => restartBy(restart, { url, untilMs }),
    close: async () => {},
  };
}

async function restartBy(command: string, { url, untilMs }: { url: string; untilMs: number }): Promise<Away> {
  await delay(Math.max(0, untilMs - AHEAD_MS - Date.now()));
  const fromMs = Date.now();
  const [code] = await once(spawn(command, { shell: true, stdio: ['ignore', 'ignore', 'inherit'] }), 'exit');
  if (code !== 0)
    throw new AppError('UNAVAILABLE', {
      message: `The command of --restart ended with ${code}. Check that it works in a shell.`,
    });
  await delay(Math.max(0, untilMs - Date.now()));
  await answers(url, BACK_WITHIN_MS);
  return { fromMs, toMs: Date.now() };
}

/** Resolves when the server can run jobs. */
async function answers(url: string, withinMs: number): Promise<void> {
  const api = new ExecutionApi({ url, patienceMs: 0 });
  const startedMs = performance.now();
  try {
    for (;;) {
      const { status } = await api.health();
      if (status === 200) return;
      if (performance.now() - startedMs >= withinMs) throw new AppError('UNAVAILABLE', { message: explain(url, status) });
      await delay(EVERY_MS);
    }
  } finally {
    api.close();
  }
}

function explain(url: string, status: number): string {
  if (status === 0) return `No server responds at ${url}. Start "millrace up", name another --url, or use --embedded.`;
  if (status === 503) return `The server at ${url} has no running worker. Start "millrace up" there.`;
  return `GET ${url}/v1/health returned ${status}: this is not a Millrace server with the execution API. Check --url.`;
}
