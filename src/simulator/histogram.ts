const SMALLEST_MS = 0.1;
const GROWTH = 1.08;
const LOG_GROWTH = Math.log(GROWTH);

export type Quantiles = { count: number; p50: number; p95: number; p99: number; max: number };
export type Bar = { from: number; to: number; count: number };

/** Counts durations in buckets that grow by 8 percent each. Its size does not depend on the number of durations. */
export class Histogram {
  readonly #buckets: number[] = [];
  #count = 0;
  #max = 0;

  add(ms: number): void {
    const bucket = ms <= SMALLEST_MS ? 0 : Math.ceil(Math.log(ms / SMALLEST_MS) / LOG_GROWTH);
    this.#buckets[bucket] = (this.#buckets[bucket] ?? 0) + 1;
    this.#count++;
    this.#max = Math.max(this.#max, ms);
  }

  get count(): number {
    return this.#count;
  }

  /** The upper edge of the bucket of the quantile, or the maximum if that is smaller. */
  quantile(share: number): number {
    const wanted = Math.max(1, Math.ceil(share * this.#count));
    let seen = 0;
    for (let bucket = 0; bucket < this.#buckets.length; bucket++) {
      seen += this.#buckets[bucket] ?? 0;
      if (seen >= wanted) return round(Math.min(this.#max, edge(bucket)));
    }
    return 0;
  }

  quantiles(): Quantiles {
    const at = (share: number) => this.quantile(share);
    return { count: this.#count, p50: at(0.5), p95: at(0.95), p99: at(0.99), max: round(this.#max) };
  }

  /** At most `count` bars of equal width on a logarithmic axis, from the first filled bucket to the last. */
  bars(count: number): Bar[] {
    const first = this.#buckets.findIndex((held) => held > 0);
    if (first < 0) return [];
    const width = Math.max(1, Math.ceil((this.#buckets.length - first) / count));
    const bars: Bar[] = [];
    for (let from = first; from < this.#buckets.length; from += width) {
      const held = this.#buckets.slice(from, from + width).reduce((sum, one) => sum + (one ?? 0), 0);
      bars.push({ from: edge(from - 1), to: edge(from + width - 1), count: held });
    }
    return bars;
  }
}

const edge = (bucket: number): number => (bucket < 0 ? 0 : SMALLEST_MS * GROWTH ** bucket);
const round = (ms: number): number => Math.round(ms * 10) / 10;
