import type { Execution } from './execution.ts';

/** Attempts that were started ahead of a free slot, in their order. Taking the first costs the same however many there are. */
export class WaitingLine {
  #executions: Execution[] = [];
  #next = 0;

  get length(): number {
    return this.#executions.length - this.#next;
  }

  push(execution: Execution): void {
    this.#executions.push(execution);
  }

  shift(): Execution | undefined {
    const first = this.#executions[this.#next];
    if (first === undefined) return undefined;
    this.#next++;
    if (this.length === 0) this.takeAll();
    return first;
  }

  takeAll(): Execution[] {
    const left = this.#executions.slice(this.#next);
    this.#executions = [];
    this.#next = 0;
    return left;
  }
}
