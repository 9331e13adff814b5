import type { Unstarted } from './starter.ts';

/** Jobs under lease that wait for a slot, in claim order. Taking the first costs the same however many there are. */
export class WaitingLine {
  #jobs: Unstarted[] = [];
  #next = 0;

  get length(): number {
    return this.#jobs.length - this.#next;
  }

  /** When the first in line was claimed, on the monotonic clock. */
  get oldestMs(): number | undefined {
    return this.#jobs[this.#next]?.claimedMs;
  }

  push(jobs: readonly Unstarted[]): void {
    for (const job of jobs) this.#jobs.push(job);
  }

  take(most: number): Unstarted[] {
    const taken = this.#jobs.slice(this.#next, this.#next + most);
    this.#next += taken.length;
    if (this.length === 0) {
      this.#jobs = [];
      this.#next = 0;
    }
    return taken;
  }
}
