/**
 * Random bytes that were drawn many at a time: a draw costs some microseconds whatever its size. `fill` does the drawing. What is
 * taken is the taker's own only until the next draw, so it is to be read at once.
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

  /** As text, which stays what it is. */
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
