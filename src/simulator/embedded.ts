import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { AppError } from '../core/errors.ts';
import type { Away, Host } from './host.ts';

export type EmbeddedOptions = {
  readonly timeScale: number;
  /** Default: a temporary database. */
  readonly databaseUrl?: string;
  /** The address on this machine that may receive callbacks, such as `127.0.0.1:9000`. */
  readonly receiver?: string;
  readonly settings?: Readonly<Record<string, string>>;
};

const PROGRAM = join(fileURLToPath(import.meta.url), '..', '..', '..', 'bin', 'millrace.js');

/** Limits that a test cannot reach, and short delays before retries. */
const SETTINGS = {
  MILLRACE_WORKERS_CONCURRENCY: '200',
  MILLRACE_LIMITS_REQUESTS_PER_MINUTE: '1000000000',
  MILLRACE_AUTH_OPEN_CALLS_PER_MINUTE: '1000000',
  MILLRACE_EXECUTION_BACKOFF_BASE: '10ms',
  MILLRACE_EXECUTION_BACKOFF_MAX: '50ms',
  MILLRACE_WEBHOOKS_TIMEOUT: '1s',
  MILLRACE_WEBHOOKS_BACKOFF_BASE: '10ms',
  MILLRACE_WEBHOOKS_BACKOFF_MAX: '50ms',
};

const MAX_RUNTIME_MS = 120_000;
const LONGEST_RUN_MS = 110_000;
const SLACK_MS = 3_000;

/** Durations shrink with the time scale, but the overhead of a busy machine does not. The longest kind needs slack for it. */
const maxRuntimeMs = (timeScale: number): number => Math.ceil(Math.max(MAX_RUNTIME_MS, LONGEST_RUN_MS + SLACK_MS / timeScale));

/** Starts `millrace up` in a separate process, on a temporary database. */
export async function embeddedHost(options: EmbeddedOptions): Promise<Host> {
  const folder = await mkdtemp(join(tmpdir(), 'millrace-simulate-'));
  // As root, the account of the server must be able to enter this folder. Otherwise its data would be kept elsewhere.
  await chmod(folder, 0o711);
  const server = new Server(folder, options);
  // Stop the server however this program ends.
  const onExit = () => server.signal('SIGTERM');
  process.once('exit', onExit);
  const close = async () => {
    await server.stop();
    process.off('exit', onExit);
    await rm(folder, { recursive: true, force: true });
  };
  try {
    await server.start();
  } catch (error) {
    await close();
    throw error;
  }
  return { url: server.url, restart: (untilMs) => server.restart(untilMs), close };
}

class Server {
  readonly #folder: string;
  readonly #options: EmbeddedOptions;
  #child: ChildProcess | null = null;
  url = '';

  constructor(folder: string, options: EmbeddedOptions) {
    this.#folder = folder;
    this.#options = options;
  }

  /** Resolves when the server is up. Restarts keep the address of the first start. */
  async start(): Promise<void> {
    const port = this.url === '' ? '0' : new URL(this.url).port;
    const { databaseUrl } = this.#options;
    const place = databaseUrl === undefined ? ['--home', join(this.#folder, 'data')] : ['--database', databaseUrl];
    // A separate process group: Ctrl-C reaches only the simulator, which then stops the server.
    const child = spawn(process.execPath, [PROGRAM, 'up', '--json', '--port', port, ...place], {
      cwd: this.#folder,
      env: this.#environment(),
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#child = child;
    this.url = await saysWhere(child);
  }

  async stop(): Promise<void> {
    const child = this.#child;
    if (child === null || child.exitCode !== null || child.signalCode !== null) return;
    const gone = once(child, 'exit');
    child.kill('SIGTERM');
    await gone;
  }

  async restart(untilMs: number): Promise<Away> {
    const fromMs = Date.now();
    await this.stop();
    await delay(Math.max(0, untilMs - Date.now()));
    await this.start();
    return { fromMs, toMs: Date.now() };
  }

  signal(signal: NodeJS.Signals): void {
    this.#child?.kill(signal);
  }

  /** Without the settings of the simulator's environment, which are meant for other servers. */
  #environment(): Record<string, string | undefined> {
    const isOwn = ([name]: [string, unknown]) => !/^(?:MILLRACE_|DATABASE_URL$|PORT$)/.test(name);
    const inherited = Object.fromEntries(Object.entries(process.env).filter(isOwn));
    const { timeScale, settings, receiver } = this.#options;
    const scaled = {
      MILLRACE_SIMULATION_TIME_SCALE: String(timeScale),
      MILLRACE_EXECUTION_MAX_RUNTIME: `${maxRuntimeMs(timeScale)}ms`,
    };
    const opened = receiver === undefined ? {} : { MILLRACE_EGRESS_TARGETS: receiver };
    return { ...inherited, ...SETTINGS, ...scaled, ...opened, ...settings };
  }
}

async function saysWhere(child: ChildProcess): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  let complaint = '';
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    complaint = (complaint + text).slice(-4_000);
  });
  createInterface({ input: child.stdout as NodeJS.ReadableStream }).on('line', (line) => {
    const said = JSON.parse(line);
    if (said.event === 'up') resolve(said.url);
  });
  child.once('error', reject);
  child.once('close', (code, signal) => {
    const message = `The server did not start: it ended with ${signal ?? code}. ${complaint.trim()}`;
    reject(new AppError('UNAVAILABLE', { message }));
  });
  return promise;
}
