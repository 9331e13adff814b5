import { PAUSES, pauseMs } from '../core/backoff.ts';
import type { EventHub } from './events.ts';
import { WakeSignal } from './wake-signal.ts';

/** The contract of every long-lived part: `start` is called once, and `stop` resolves when nothing of it runs. */
export type Service = { start(): void | Promise<void>; stop(): Promise<void> };

export type LoopOptions = {
  name: string;
  /** Returns how long to wait for the next round. `wake` ends the wait. */
  round(): Promise<number>;
  events: EventHub;
  /** The first round comes at a random time within this limit, so that work that can wait does not slow down the start. */
  firstWithinMs?: number;
};

/** Repeats a round. After a round that failed it waits longer each time, with jitter. */
export class Loop implements Service {
  readonly #options: LoopOptions;
  #running: Promise<void> | null = null;
  #isStopping = false;
  readonly #signal = new WakeSignal();

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
    this.#signal.wake();
  }

  async #run(): Promise<void> {
    let failures = 0;
    const { firstWithinMs = 0 } = this.#options;
    this.#signal.reset();
    if (firstWithinMs > 0) await this.#signal.wait(Math.random() * firstWithinMs);
    while (!this.#isStopping) {
      this.#signal.reset();
      let delayMs: number;
      try {
        delayMs = await this.#options.round();
        failures = 0;
      } catch (error) {
        this.#options.events.emit('error', { error, where: this.#options.name });
        delayMs = pauseMs(PAUSES.roundFailed, failures++, Math.random());
      }
      if (!this.#isStopping) await this.#signal.wait(delayMs);
    }
  }
}

/** A service with one loop. The subclass defines the round. */
export abstract class LoopService implements Service {
  readonly #loop: Loop;

  constructor({ name, events }: { name: string; events: EventHub }) {
    this.#loop = new Loop({ name, round: () => this.round(), events });
  }

  start(): void {
    this.#loop.start();
  }

  stop(): Promise<void> {
    return this.#loop.stop();
  }

  /** Starts the next round now. */
  wake(): void {
    this.#loop.wake();
  }

  /** Returns how long to wait for the next round. */
  abstract round(): Promise<number>;
}

/** A service with several loops that start and stop together. */
export abstract class LoopGroup implements Service {
  protected abstract readonly loops: readonly Loop[];

  start(): void {
    for (const loop of this.loops) loop.start();
  }

  async stop(): Promise<void> {
    await Promise.all(this.loops.map((loop) => loop.stop()));
  }
}
