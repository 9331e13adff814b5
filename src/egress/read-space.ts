import type { OnReadOpts, Socket } from 'node:net';
import { SLAB_BYTES, slabs } from '../core/slab-pool.ts';

/** Several small responses fit into one. */
const SMALL_BYTES = 65_536;
/** A shorter rest is not used for another read. */
const MIN_BYTES = 16_384;
const MIN_SLAB_BYTES = 65_536;

/**
 * The memory that a socket reads into. Node would allocate 64 KiB for each read. Here the reads of small responses share a buffer, and a large body is
 * read in few pieces into slabs.
 */
class ReadSpace {
  #space: Buffer = Buffer.allocUnsafeSlow(SMALL_BYTES);
  #isSlab = false;
  /** How many bytes of a large body are still to come. */
  #expected = 0;

  expect(bytes: number): void {
    this.#expected = bytes;
  }

  /** Where the next read goes. The reads of a body do not go beyond its end, so that its slabs hold nothing else. */
  next(): Buffer {
    const isLarge = this.#expected > 0;
    if (this.#isSlab && (!isLarge || this.#space.length < MIN_SLAB_BYTES)) {
      slabs.release(this.#space);
      this.#isSlab = false;
      this.#space = Buffer.alloc(0);
    }
    if (isLarge && !this.#isSlab) {
      this.#space = slabs.take();
      this.#isSlab = true;
    } else if (!isLarge && this.#space.length < MIN_BYTES) {
      this.#space = Buffer.allocUnsafeSlow(SMALL_BYTES);
    }
    return isLarge ? this.#space.subarray(0, this.#expected) : this.#space;
  }

  /** The first bytes of the space, which now belong to the reader. */
  take(bytes: number): Buffer {
    const taken = this.#space.subarray(0, bytes);
    this.#space = this.#space.subarray(bytes);
    this.#expected = Math.max(0, this.#expected - bytes);
    return taken;
  }
}

const spaces = new WeakMap<Socket, ReadSpace>();

/** Opens a socket that reads into a space. It is read like any other. */
export function openWithSpace(open: (onread: OnReadOpts) => Socket): Socket {
  const space = new ReadSpace();
  const socket = open({ buffer: () => space.next(), callback: (bytes) => socket.push(space.take(bytes)) });
  spaces.set(socket, space);
  return socket;
}

/** A body of this length is about to arrive, and nothing else before its end. Sockets with TLS read in other ways, and are left alone. */
export function expectBody(socket: Socket, bytes: number): void {
  if (bytes >= SLAB_BYTES) spaces.get(socket)?.expect(bytes);
}
