import { PAUSES, pauseMs } from '../../core/backoff.ts';
import { BoundedTasks } from '../../core/bounded-tasks.ts';
import { AppError } from '../../core/errors.ts';
import { isContended } from '../../ledger/driver/statement.ts';

type Task = {
  orgId: string;
  attempt(): Promise<unknown>;
  /** What its caller is told when the lock was not free in time. */
  refusal: string;
  tries: number;
  untilMs: number;
  resolve(value: unknown): void;
  reject(error: unknown): void;
};

export type HeldLaneOptions = {
  /** Attempts at once. Each may use a connection of the API for as long as it waits for a lock. */
  maxAtOnce?: number;
  /** For how long a task is tried. */
  patienceMs?: number;
  maxWaiting?: number;
  maxWaitingOfOrg?: number;
};

/**
 * Work that met a lock of another transaction, which may be a user's. Each task is tried alone until it succeeds or its time is over. An
 * attempt must fail soon when the lock is not free. So a task delays the others by one such wait at most. Tasks that are new go first,
 * and orgs take turns.
 */
export class HeldLane {
  readonly #options: Required<HeldLaneOptions>;
  readonly #fresh = new Turns();
  readonly #again = new Turns();
  readonly #waitingOfOrg = new Map<string, number>();
  #waiting = 0;
  readonly #tasks: BoundedTasks;
  #idleWaiters: (() => void)[] = [];

  constructor(options: HeldLaneOptions = {}) {
    this.#options = { maxAtOnce: 4, patienceMs: 5_000, maxWaiting: 4_096, maxWaitingOfOrg: 256, ...options };
    this.#tasks = new BoundedTasks(this.#options.maxAtOnce, () => {
      const task = this.#fresh.shift() ?? this.#again.shift();
      return task && (() => this.#try(task));
    });
  }

  /** Tries again whenever the attempt fails because of a lock, and refuses once the time is over. Other failures are final. */
  run<T>(orgId: string, attempt: () => Promise<T>, refusal: string): Promise<T> {
    const { maxWaiting, maxWaitingOfOrg, patienceMs } = this.#options;
    const ofOrg = this.#waitingOfOrg.get(orgId) ?? 0;
    if (this.#waiting >= maxWaiting || ofOrg >= maxWaitingOfOrg) return Promise.reject(refused(refusal));
    this.#waiting++;
    this.#waitingOfOrg.set(orgId, ofOrg + 1);
    return new Promise<T>((resolve, reject) => {
      const untilMs = performance.now() + patienceMs;
      this.#fresh.push({ orgId, attempt, refusal, tries: 0, untilMs, resolve: resolve as Task['resolve'], reject });
      this.#tasks.pump();
    }).finally(() => this.#leave(orgId));
  }

  async idle(): Promise<void> {
    if (this.#waiting > 0) await new Promise<void>((resolve) => this.#idleWaiters.push(resolve));
  }

  async #try(task: Task): Promise<void> {
    try {
      task.resolve(await task.attempt());
    } catch (error) {
      const delayMs = pauseMs(PAUSES.requestHeld, task.tries++, Math.random());
      if (!isContended(error)) task.reject(error);
      else if (performance.now() + delayMs >= task.untilMs) task.reject(refused(task.refusal, error));
      else setTimeout(() => this.#retry(task), delayMs);
    }
  }

  #retry(task: Task): void {
    this.#again.push(task);
    this.#tasks.pump();
  }

  #leave(orgId: string): void {
    const ofOrg = (this.#waitingOfOrg.get(orgId) ?? 1) - 1;
    if (ofOrg === 0) this.#waitingOfOrg.delete(orgId);
    else this.#waitingOfOrg.set(orgId, ofOrg);
    if (--this.#waiting > 0) return;
    for (const wake of this.#idleWaiters.splice(0)) wake();
  }
}

const refused = (message: string, cause?: unknown): AppError =>
  new AppError('UNAVAILABLE', { message, retryAfterMs: 1_000, cause });

/** Tasks of many orgs, one of each org in turn. */
class Turns {
  /** In the order of the turns. */
  readonly #ofOrg = new Map<string, Task[]>();

  push(task: Task): void {
    const tasks = this.#ofOrg.get(task.orgId);
    if (tasks === undefined) this.#ofOrg.set(task.orgId, [task]);
    else tasks.push(task);
  }

  shift(): Task | undefined {
    for (const [orgId, tasks] of this.#ofOrg) {
      const task = tasks.shift();
      this.#ofOrg.delete(orgId);
      if (tasks.length > 0) this.#ofOrg.set(orgId, tasks);
      return task;
    }
    return undefined;
  }
}
