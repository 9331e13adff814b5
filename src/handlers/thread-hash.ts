import { Worker as Thread } from 'node:worker_threads';

export type HashOrder =
  | { readonly kind: 'update'; readonly id: number; readonly bytes: Uint8Array }
  | { readonly kind: 'digest' | 'forget'; readonly id: number };
/** The digest, or null for an update. Orders to forget have no answer. */
export type HashAnswer = string | null;

interface Waiting {
  resolve(answer: HashAnswer): void;
  reject(error: Error): void;
}

/** The thread that computes hashes. It starts when it is needed, and does not keep the process alive. */
class HashThread {
  readonly #thread: Thread;
  /** The thread answers in order. */
  readonly #waiting: Waiting[] = [];
  #failure: Error | null = null;

  constructor() {
    const file = import.meta.url.endsWith('.ts') ? './hash-thread.ts' : './hash-thread.js';
    this.#thread = new Thread(new URL(file, import.meta.url));
    let problem = 'it ended';
    this.#thread.on('message', (answer: HashAnswer) => {
      this.#waiting.shift()?.resolve(answer);
      if (this.#waiting.length === 0) this.#thread.unref();
    });
    this.#thread.on('error', (error) => {
      problem = error instanceof Error ? error.message : String(error);
    });
    this.#thread.once('exit', () => {
      this.#failure = new Error(`the thread that computes hashes failed (${problem})`);
      for (const { reject } of this.#waiting.splice(0)) reject(this.#failure);
    });
    this.#thread.unref();
  }

  get hasFailed(): boolean {
    return this.#failure !== null;
  }

  ask(order: HashOrder): Promise<HashAnswer> {
    if (this.#failure !== null) return Promise.reject(this.#failure);
    const { promise, resolve, reject } = Promise.withResolvers<HashAnswer>();
    if (this.#waiting.push({ resolve, reject }) === 1) this.#thread.ref();
    this.#thread.postMessage(order);
    return promise;
  }

  tell(order: HashOrder): void {
    if (this.#failure === null) this.#thread.postMessage(order);
  }
}

let current: HashThread | null = null;
let ids = 0;

/** A SHA-256 that a thread computes. The thread keeps it until it is told to forget it. */
export class ThreadHash {
  readonly #id = ++ids;
  readonly #thread: HashThread;

  constructor() {
    if (current === null || current.hasFailed) current = new HashThread();
    this.#thread = current;
  }

  /** Resolves when the bytes are hashed. Until then they must not change. Shared memory is not copied. */
  async update(bytes: Uint8Array): Promise<void> {
    await this.#thread.ask({ kind: 'update', id: this.#id, bytes });
  }

  /** Of all bytes so far. */
  async digest(): Promise<string> {
    return (await this.#thread.ask({ kind: 'digest', id: this.#id })) as string;
  }

  forget(): void {
    this.#thread.tell({ kind: 'forget', id: this.#id });
  }
}
