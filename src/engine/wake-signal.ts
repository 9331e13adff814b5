/** Ends a wait early. It remembers a wake until the next wait or reset. */
export class WakeSignal {
  #isWoken = false;
  #end: (() => void) | null = null;

  wake(): void {
    this.#isWoken = true;
    this.#end?.();
  }

  reset(): void {
    this.#isWoken = false;
  }

  /** Returns whether the signal came within the time. Make one call at a time. */
  async wait(ms: number): Promise<boolean> {
    if (!this.#isWoken) {
      const { promise, resolve } = Promise.withResolvers<void>();
      const timer = setTimeout(resolve, ms);
      this.#end = resolve;
      await promise;
      clearTimeout(timer);
      this.#end = null;
    }
    const isWoken = this.#isWoken;
    this.#isWoken = false;
    return isWoken;
  }
}
