import type { Unstarted } from './starter.ts';

/** Jobs under lease that wait for a slot, in claim order. */
export class WaitingLine {
  /** In the order in which they came, which a Map keeps. */
  readonly #jobs = new Map<number, { unstarted: Unstarted; sinceMs: number }>();

  get length(): number {
    return this.#jobs.size;
  }

  /** When the first in line came, on the monotonic clock. */
  get oldestMs(): number | undefined {
    for (const { sinceMs } of this.#jobs.values()) return sinceMs;
    return undefined;
  }

  push(jobs: readonly Unstarted[]): void {
    const sinceMs = performance.now();
    for (const unstarted of jobs) this.#jobs.set(unstarted.job.leaseSeq, { unstarted, sinceMs });
  }

  take(): Unstarted | undefined {
    for (const [leaseSeq, first] of this.#jobs) {
      this.#jobs.delete(leaseSeq);
      return first.unstarted;
    }
    return undefined;
  }

  remove(leaseSeq: number): Unstarted | undefined {
    const removed = this.#jobs.get(leaseSeq)?.unstarted;
    this.#jobs.delete(leaseSeq);
    return removed;
  }

  clear(): Unstarted[] {
    const all = this.all();
    this.#jobs.clear();
    return all;
  }

  all(): Unstarted[] {
    return Array.from(this.#jobs.values(), ({ unstarted }) => unstarted);
  }
}
