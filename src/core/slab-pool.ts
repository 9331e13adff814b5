export const SLAB_BYTES = 1024 * 1024;
/** 16 MiB. What is released beyond this is left to the garbage collector. */
const MAX_FREE = 16;
/** 256 MiB. The garbage collector does not count shared memory, so it may be late for slabs that were lost. */
const MAX_SLABS = 256;

/**
 * Memory that bytes of large bodies pass through. Threads can read it without a copy. It is used again and again, because new memory for each
 * read costs more than the read: 1 GiB from a socket takes 0.5 s of processor time in slabs, and 1.8 s in new buffers of 64 KiB.
 */
export class SlabPool {
  readonly #free: SharedArrayBuffer[] = [];
  /** How many bytes of a slab are not released. */
  readonly #unreleased = new WeakMap<ArrayBufferLike, number>();
  #count = 0;
  readonly #collected = new FinalizationRegistry<null>(() => this.#count--);

  /** Ordinary memory if there are too many slabs. */
  take(): Buffer {
    const slab = this.#free.pop() ?? this.#create();
    if (slab === null) return Buffer.allocUnsafeSlow(SLAB_BYTES);
    this.#unreleased.set(slab, SLAB_BYTES);
    return Buffer.from(slab);
  }

  #create(): SharedArrayBuffer | null {
    if (this.#count === MAX_SLABS) return null;
    this.#count++;
    const slab = new SharedArrayBuffer(SLAB_BYTES);
    this.#collected.register(slab, null);
    return slab;
  }

  /**
   * A slab is free when each of its bytes was released, once. A caller that does not know who else reads some bytes must not release them. Their slab is then
   * garbage like other memory. Bytes outside of slabs are ignored.
   */
  release(bytes: Uint8Array): void {
    const slab = bytes.buffer;
    const unreleased = this.#unreleased.get(slab);
    if (unreleased === undefined) return;
    const left = unreleased - bytes.byteLength;
    if (left > 0) {
      this.#unreleased.set(slab, left);
      return;
    }
    this.#unreleased.delete(slab);
    if (this.#free.length < MAX_FREE) this.#free.push(slab as SharedArrayBuffer);
  }
}

/** For all bodies of the process. */
export const slabs = new SlabPool();
