const waiting: (() => void)[] = [];

/** One continuation per turn of the event loop, so that many large requests together do not delay the others either. */
function continueNext(): void {
  waiting.shift()?.();
  if (waiting.length > 0) setImmediate(continueNext);
}

/** Resolves in a later turn of the event loop. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    if (waiting.push(resolve) === 1) setImmediate(continueNext);
  });
}

/**
 * Divides long work into turns of the event loop. The caller reports the work that it has done, in a unit of its choice, and waits for the
 * promise if there is one.
 */
export class Turns {
  readonly #workPerTurn: number;
  #left: number;

  constructor(workPerTurn: number) {
    this.#workPerTurn = workPerTurn;
    this.#left = workPerTurn;
  }

  /** Returns a promise when the turn is over, and undefined before that. */
  spend(work: number): Promise<void> | undefined {
    this.#left -= work;
    if (this.#left > 0) return undefined;
    this.#left = this.#workPerTurn;
    return nextTurn();
  }
}
