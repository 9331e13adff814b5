import { WakeSignal } from '../wake-signal.ts';

/** A change that was not reported is noticed after this long. */
const LOOK_MS = 50;

/** Waits until a condition holds. It checks on every reported change, and from time to time. */
export class IdleWait {
  readonly #isIdle: () => boolean;
  readonly #signal = new WakeSignal();

  constructor(isIdle: () => boolean) {
    this.#isIdle = isIdle;
  }

  changed(): void {
    this.#signal.wake();
  }

  /** Returns when the condition holds or the time is up. */
  async within(limitMs: number): Promise<void> {
    const deadlineMs = performance.now() + limitMs;
    for (let leftMs = limitMs; leftMs > 0 && !this.#isIdle(); leftMs = deadlineMs - performance.now()) {
      await this.#signal.wait(Math.min(leftMs, LOOK_MS));
    }
  }
}
