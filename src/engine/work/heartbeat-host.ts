import { Worker as Thread } from 'node:worker_threads';
import type { HeartbeatThreadData } from './pulse.ts';

/**
 * The heartbeat thread as the main thread has it. It loads its modules as soon as it is made, which takes a few hundred milliseconds: long enough to
 * do it while the worker is being registered, and not while it runs its first jobs.
 */
export class HeartbeatHost {
  readonly exited: Promise<unknown>;
  readonly #thread: Thread;

  constructor(onError: (error: unknown) => void) {
    const file = import.meta.url.endsWith('.ts') ? './heartbeat-thread.ts' : './heartbeat-thread.js';
    this.#thread = new Thread(new URL(file, import.meta.url));
    this.#thread.on('error', onError);
    this.exited = new Promise((resolve) => this.#thread.once('exit', resolve));
    this.#thread.unref();
  }

  /** The first and only message: from here on it beats. */
  begin(data: HeartbeatThreadData): void {
    this.#thread.postMessage(data);
  }

  /** For a thread that was never needed. */
  async discard(): Promise<void> {
    await this.#thread.terminate();
  }
}
