/** `millrace up` as a process: the HTTP API and workers on an external database, or on the embedded one. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { freePort } from './postgres-server.ts';

const PROGRAM = fileURLToPath(new URL('../bin/millrace.js', import.meta.url));

/** A lease so short that a restarted server soon has the jobs of the killed one. */
const SETTINGS = {
  MILLRACE_QUEUE_VISIBILITY_TIMEOUT: '2s',
  MILLRACE_LIMITS_REQUESTS_PER_MINUTE: '10000000',
  MILLRACE_LIMITS_QUEUE_SIZE: '1000000000',
  MILLRACE_WORKERS_CONCURRENCY: '32',
};

export class Program {
  readonly #databaseUrl: string;
  readonly #settings: Readonly<Record<string, string>>;
  readonly #modules: readonly string[];
  #child: ChildProcess | null = null;
  #url = '';
  #key = '';
  /** How often the process ended without being killed. */
  exits = 0;
  /** Log lines about unexpected errors. */
  readonly faults: string[] = [];

  /** `settings` are added to the usual ones, as environment variables. An empty URL stands for the embedded database. */
  constructor(
    databaseUrl: string,
    settings: Readonly<Record<string, string>> = {},
    usual: Readonly<Record<string, string>> = SETTINGS,
    modules: readonly string[] = [],
  ) {
    this.#modules = modules;
    this.#databaseUrl = databaseUrl;
    this.#settings = { ...usual, ...settings };
  }

  get url(): string {
    return this.#url;
  }

  /** Of the first start on an empty database. */
  get key(): string {
    return this.#key;
  }

  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** Resolves when the server responds. A restart uses the same port. */
  async start(): Promise<void> {
    const port = this.#url === '' ? String(await freePort()) : new URL(this.#url).port;
    const database = this.#databaseUrl === '' ? [] : ['--database', this.#databaseUrl];
    const args = ['up', ...this.#modules, '--json', '--port', port, ...database];
    const child = spawn(process.execPath, [PROGRAM, ...args], {
      env: { ...process.env, ...this.#settings },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    this.#child = child;
    child.once('exit', (_code, signal) => {
      if (signal !== 'SIGKILL') this.exits++;
    });
    const isUp = Promise.withResolvers<Record<string, string>>();
    child.once('exit', (code, signal) => isUp.reject(new Error(`the program ended with ${signal ?? code}`)));
    createInterface({ input: child.stdout as NodeJS.ReadableStream }).on('line', (line) => {
      const said = JSON.parse(line);
      if (said.event === 'up') isUp.resolve(said);
      if (said.event === 'fault') this.faults.push(said.message);
    });
    const { url, key } = await isUp.promise;
    this.#url = url as string;
    this.#key = key ?? this.#key;
  }

  /** Kills the process with kill -9, and resolves when it has ended. */
  kill(): Promise<void> {
    return this.#end('SIGKILL');
  }

  /** Asks the process to stop, so that it also stops its embedded database. */
  stop(): Promise<void> {
    return this.#end('SIGTERM');
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    const child = this.#child;
    if (child === null || child.exitCode !== null || child.signalCode !== null) return;
    const gone = once(child, 'exit');
    child.kill(signal);
    await gone;
  }
}
