import type { Unstarted } from './starter.ts';

/** Jobs under lease that wait for a slot, in claim order. */
export class WaitingLine {
  /** In the order in which they came, which a Map keeps. */
  readonly #jobs = new Map<number, Unstarted>();

  get length(): number {
    return this.#jobs.size;
  }

  /** When the first in line was claimed, on the monotonic clock. */
  get oldestMs(): number | undefined {
    for (const { claimedMs } of this.#jobs.values()) return claimedMs;
    return undefined;
  }

  push(jobs: readonly Unstarted[]): void {
    for (const each of jobs) this.#jobs.set(each.job.leaseSeq, each);
  }

  take(): Unstarted | undefined {
    for (const [leaseSeq, first] of this.#jobs) {
      this.#jobs.delete(leaseSeq);
      return first;
    }
    return undefined;
  }

  remove(leaseSeq: number): Unstarted | undefined {
    const removed = this.#jobs.get(leaseSeq);
    this.#jobs.delete(leaseSeq);
    return removed;
  }

  clear(): Unstarted[] {
    const all = this.all();
    this.#jobs.clear();
    return all;
  }

  all(): Unstarted[] {
    return [...this.#jobs.values()];
  }
}
