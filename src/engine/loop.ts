import { PAUSES, pauseMs } from '../core/backoff.ts';

/** Everything that lives long obeys this: `start` once, `stop` waits until nothing of it runs any more. */
export type Service = { start(): void | Promise<void>; stop(): Promise<void> };

export type LoopOptions = {
  name: string;
  /** One round. Answers how long to wait for the next; `wake` cuts the wait short. */
  round(): Promise<number>;
  onError(error: unknown, name: string): void;
  /** The first round comes within this time and not at once, so that what can wait does not crowd a start. */
  firstWithinMs?: number;
};

/** A poll loop that no error ends: after a failed round it waits, longer each time, with jitter. */
export class Loop implements Service {
  readonly #options: LoopOptions;
  #running: Promise<void> | null = null;
  #isStopping = false;
  #isWoken = false;
  #wakeUp: (() => void) | null = null;

  constructor(options: LoopOptions) {
    this.#options = options;
  }

  start(): void {
    if (this.#running !== null) return;
    this.#isStopping = false;
    this.#running = this.#run();
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    this.wake();
    await this.#running;
    this.#running = null;
  }

  wake(): void {
    this.#isWoken = true;
    this.#wakeUp?.();
  }

  async #run(): Promise<void> {
    let failures = 0;
    const { firstWithinMs = 0 } = this.#options;
    if (firstWithinMs > 0) await this.#sleep(Math.random() * firstWithinMs);
    while (!this.#isStopping) {
      this.#isWoken = false;
      let delayMs: number;
      try {
        delayMs = await this.#options.round();
        failures = 0;
      } catch (error) {
        this.#options.onError(error, this.#options.name);
        delayMs = pauseMs(PAUSES.roundFailed, failures++, Math.random());
      }
      if (!this.#isWoken && !this.#isStopping) await this.#sleep(delayMs);
    }
  }

  #sleep(delayMs: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(done, delayMs);
      const finish = () => {
        this.#wakeUp = null;
        resolve();
      };
      this.#wakeUp = () => {
        clearTimeout(timer);
        finish();
      };
      function done() {
        finish();
      }
    });
  }
}
