import type { Body } from './object-store.ts';

/** The chunks of a body. An abort ends a wait for the next chunk at once. */
export async function* chunksOf(body: Body, signal?: AbortSignal): AsyncGenerator<Uint8Array, void> {
  signal?.throwIfAborted();
  if (body instanceof Uint8Array) {
    yield body;
    return;
  }
  const chunks = body[Symbol.asyncIterator]();
  const aborted = whenAborted(signal);
  let ended = false;
  try {
    for (;;) {
      const next = chunks.next();
      const { done, value } = await (aborted === null ? next : Promise.race([next, aborted.promise]));
      if (done) {
        ended = true;
        return;
      }
      if (value.byteLength > 0) yield value;
    }
  } finally {
    aborted?.forget();
    // A source that never sends its next chunk cannot return either, so nobody waits for it.
    if (!ended) Promise.resolve(chunks.return?.()).catch(() => undefined);
  }
}

function whenAborted(signal: AbortSignal | undefined): { promise: Promise<never>; forget: () => void } | null {
  if (signal === undefined) return null;
  const { promise, reject } = Promise.withResolvers<never>();
  promise.catch(() => undefined);
  const abort = () => reject(signal.reason);
  signal.addEventListener('abort', abort, { once: true });
  return { promise, forget: () => signal.removeEventListener('abort', abort) };
}

/** Gathers chunks into parts of exactly `size` bytes. The last part may be shorter; an empty body has no part. */
export class PartBuffer {
  readonly #size: number;
  #part: Buffer;
  #length = 0;
  #spare: Buffer | null = null;

  constructor(size: number) {
    this.#size = size;
    this.#part = Buffer.alloc(0);
  }

  get length(): number {
    return this.#length;
  }

  /** The parts that `chunk` completes. The caller may still be sending the last one, so a new part never shares its buffer. */
  *add(chunk: Uint8Array): Generator<Buffer, void> {
    let from = 0;
    while (from < chunk.byteLength) {
      const count = Math.min(this.#size - this.#length, chunk.byteLength - from);
      this.#reserve(this.#length + count);
      this.#part.set(chunk.subarray(from, from + count), this.#length);
      this.#length += count;
      from += count;
      if (this.#length === this.#size) yield this.take();
    }
  }

  /** What is left. */
  take(): Buffer {
    const part = this.#part.subarray(0, this.#length);
    this.#part = Buffer.alloc(0);
    this.#length = 0;
    return part;
  }

  /** The caller no longer needs a whole part, so its memory serves for another one. */
  reuse(part: Buffer): void {
    if (part.length === this.#size) this.#spare = part;
  }

  /** Grows by doubling, so that a small object does not take the memory of a part. After the first part there will be more. */
  #reserve(length: number): void {
    if (length <= this.#part.length) return;
    if (this.#length === 0 && this.#spare !== null) {
      this.#part = this.#spare;
      this.#spare = null;
      return;
    }
    const grown = Buffer.allocUnsafeSlow(Math.min(this.#size, Math.max(length, 2 * this.#part.length, 16_384)));
    grown.set(this.#part.subarray(0, this.#length));
    this.#part = grown;
  }
}
