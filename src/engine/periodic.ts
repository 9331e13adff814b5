import type { EventHub } from './events.ts';
import { Loop, type Service } from './loop.ts';

/** A service that does its round again and again. What fails in a round is told as an event, and the next comes all the same. */
export abstract class Periodic implements Service {
  readonly #loop: Loop;

  constructor({ name, events }: { name: string; events: EventHub }) {
    this.#loop = new Loop({
      name,
      round: () => this.round(),
      onError: (error, where) => events.emit('error', { error, where }),
    });
  }

  start(): void {
    this.#loop.start();
  }

  stop(): Promise<void> {
    return this.#loop.stop();
  }

  /** The next round comes now. */
  wake(): void {
    this.#loop.wake();
  }

  /** Answers how long to wait for the next. */
  abstract round(): Promise<number>;
}
