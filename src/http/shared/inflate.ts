import { createGunzip } from 'node:zlib';
import { BoundedTasks, type Task } from '../../core/bounded-tasks.ts';
import type { BodyHold } from './body-budget.ts';

/** Bodies that are inflated at the same time, for small limits and for large ones: small bodies do not wait for large ones. */
const AT_ONCE = 2;
const LARGE_BYTES = 1_048_576;
const CHUNK_BYTES = 65_536;

export type Inflated = { kind: 'inflated'; bytes: Buffer } | { kind: 'too large' } | { kind: 'invalid' };

export type InflateParams = { limit: number; hold: BodyHold };

/** Inflates gzipped bodies, a few at a time. */
export class Inflater {
  readonly #small = new Lane();
  readonly #large = new Lane();

  /** Counts the output while it is produced. It stops at the limit, and rejects when the budget is used up. */
  inflate(body: Buffer, params: InflateParams): Promise<Inflated> {
    const lane = params.limit > LARGE_BYTES ? this.#large : this.#small;
    return lane.run(() => inflateCounting(body, params));
  }
}

class Lane {
  readonly #waiting: Task[] = [];
  readonly #tasks = new BoundedTasks(AT_ONCE, () => this.#waiting.shift());

  run<T>(work: () => Promise<T>): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    this.#waiting.push(() => work().then(resolve, reject));
    this.#tasks.pump();
    return promise;
  }
}

async function inflateCounting(body: Buffer, { limit, hold }: InflateParams): Promise<Inflated> {
  // The client has gone while the body waited.
  if (hold.isReleased) return { kind: 'invalid' };
  const gunzip = createGunzip({ chunkSize: Math.min(CHUNK_BYTES, limit) });
  gunzip.end(body);
  const chunks: Buffer[] = [];
  let length = 0;
  try {
    for await (const chunk of gunzip as AsyncIterable<Buffer>) {
      length += chunk.length;
      if (length > limit) return { kind: 'too large' };
      hold.take(chunk.length);
      chunks.push(chunk);
    }
  } catch (error) {
    if (isZlibError(error)) return { kind: 'invalid' };
    throw error;
  }
  return { kind: 'inflated', bytes: Buffer.concat(chunks, length) };
}

const isZlibError = (error: unknown): boolean => String((error as NodeJS.ErrnoException).code).startsWith('Z_');
