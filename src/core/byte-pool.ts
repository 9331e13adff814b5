/**
 * Hands out random bytes from a buffer, because one call of `fill` costs microseconds whatever its size. The bytes of `take` are
 * overwritten by a later refill, so the caller must copy or use them immediately.
 */
export class BytePool {
  readonly #fill: (bytes: Uint8Array) => void;
  readonly #bytes: Buffer;
  #used: number;

  constructor(fill: (bytes: Uint8Array) => void, size: number) {
    this.#fill = fill;
    this.#bytes = Buffer.allocUnsafeSlow(size);
    this.#used = size;
  }

  take(count: number): Buffer {
    const from = this.#advance(count);
    return this.#bytes.subarray(from, from + count);
  }

  takeHex(count: number): string {
    const from = this.#advance(count);
    return this.#bytes.toString('hex', from, from + count);
  }

  #advance(count: number): number {
    if (this.#used + count > this.#bytes.length) {
      this.#fill(this.#bytes);
      this.#used = 0;
    }
    const from = this.#used;
    this.#used += count;
    return from;
  }
}
