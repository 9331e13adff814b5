import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';

const SCRIPT = fileURLToPath(new URL('./fixtures/worker.ts', import.meta.url));

/** The second argument of the script is the org to work for, or whatever else the script makes of it. */
/** `blocks`: the job in whose handler the process is to block. */
export type ProcessParams = { url: string; org: string; script?: string; blocks?: string };

/** A worker in a process of its own, and what it has said so far. */
export class WorkerProcess {
  readonly said: string[] = [];
  readonly #child: ChildProcess;
  readonly #listeners = new Set<() => void>();

  constructor({ script = SCRIPT, url, org, blocks = '' }: ProcessParams) {
    const child = spawn(process.execPath, [script, url, org, blocks], {
      stdio: ['pipe', 'pipe', 'inherit'],
      // With the cache, a thread does not finish loading while the main thread is blocked.
      env: { ...process.env, NODE_DISABLE_COMPILE_CACHE: '1' },
    });
    this.#child = child;
    createInterface({ input: child.stdout as NodeJS.ReadableStream }).on('line', (line) => {
      this.said.push(line);
      for (const listener of this.#listeners) listener();
    });
    onTestFinished(() => this.kill());
  }

  static async start(params: ProcessParams): Promise<WorkerProcess> {
    const worker = new WorkerProcess(params);
    await worker.says('ready');
    return worker;
  }

  /** Resolves with the signal or the code that it ended with. */
  get ended(): Promise<NodeJS.Signals | number | null> {
    const how = () => this.#child.signalCode ?? this.#child.exitCode;
    return this.isAlive ? once(this.#child, 'exit').then(how) : Promise.resolve(how());
  }

  get isAlive(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /** Resolves with the first line that begins so. */
  async says(words: string): Promise<string> {
    for (;;) {
      const line = this.said.find((each) => each.startsWith(words));
      if (line !== undefined) return line;
      if (!this.isAlive)
        throw new Error(`the worker ended (${this.#child.signalCode ?? this.#child.exitCode}) before it said "${words}": ${this.said}`);
      await new Promise<void>((resolve) => {
        const done = () => {
          this.#listeners.delete(done);
          this.#child.off('exit', done);
          resolve();
        };
        this.#listeners.add(done);
        this.#child.once('exit', done);
      });
    }
  }

  signal(name: 'SIGSTOP' | 'SIGCONT'): void {
    this.#child.kill(name);
  }

  /** Lets patient jobs end. */
  release(): void {
    this.#child.stdin?.write('go\n');
  }

  /** kill -9, and gone when it resolves. */
  async kill(): Promise<void> {
    if (!this.isAlive) return;
    const gone = once(this.#child, 'exit');
    this.#child.kill('SIGKILL');
    await gone;
  }
}
