export type Task = () => Promise<void>;

/** Runs tasks, at most `limit` at a time. */
export class BoundedTasks {
  readonly #limit: number;
  readonly #next: () => Task | undefined;
  #running = 0;

  /** `next` picks the task to run and removes it from its queue. Without a result no task starts until `pump` is called. Tasks do not reject. */
  constructor(limit: number, next: () => Task | undefined) {
    this.#limit = limit;
    this.#next = next;
  }

  /** Starts tasks up to the limit. Call it after adding a task; when a task ends, it runs again by itself. */
  pump(): void {
    while (this.#running < this.#limit) {
      const task = this.#next();
      if (task === undefined) return;
      this.#running++;
      void task().finally(() => {
        this.#running--;
        this.pump();
      });
    }
  }
}
