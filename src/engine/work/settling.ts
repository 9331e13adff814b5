/** For how long at most a change may go unnoticed that nobody told of. */
const LOOK_MS = 50;

/** Waits until everything is settled: looks whenever it is told of a change, and now and then of itself. */
export class Settling {
  readonly #isSettled: () => boolean;
  #changed: (() => void) | null = null;

  constructor(isSettled: () => boolean) {
    this.#isSettled = isSettled;
  }

  changed(): void {
    this.#changed?.();
  }

  /** Returns when all is settled or the time is up. */
  async within(limitMs: number): Promise<void> {
    const deadlineMs = performance.now() + limitMs;
    while (!this.#isSettled()) {
      const leftMs = deadlineMs - performance.now();
      if (leftMs <= 0) return;
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, Math.min(leftMs, LOOK_MS));
        this.#changed = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
  }
}
