import { PAUSES, pauseMs } from '../../core/backoff.ts';
import { BoundedTasks } from '../../core/bounded-tasks.ts';
import { AppError } from '../../core/errors.ts';
import { isContended } from '../../ledger/driver/statement.ts';
import { TurnsOfOrgs } from './turns-of-orgs.ts';

type Task = {
  orgId: string;
  work(): Promise<unknown>;
  /** The message for the caller if the lock is not free in time. */
  refusal: string;
  tries: number;
  untilMs: number;
  resolve(value: unknown): void;
  reject(error: unknown): void;
};

export type LockRetriesOptions = {
  /** How many tasks run at the same time. Each may use a connection of the API while it waits for a lock. */
  maxAtOnce?: number;
  /** How long a task is retried. */
  patienceMs?: number;
  maxWaiting?: number;
  maxWaitingOfOrg?: number;
};

/**
 * Retries work that met a lock of another transaction, until it succeeds or its time is over. The work must fail soon
 * when the lock is not free, so that a task delays the others by one such wait at most. New tasks go before retries,
 * and orgs take turns.
 */
export class LockRetries {
  readonly #options: Required<LockRetriesOptions>;
  readonly #firstTries = new TurnsOfOrgs<Task>();
  readonly #retries = new TurnsOfOrgs<Task>();
  readonly #waitingOfOrg = new Map<string, number>();
  #waiting = 0;
  readonly #tasks: BoundedTasks;
  #idleWaiters: (() => void)[] = [];

  constructor(options: LockRetriesOptions = {}) {
    this.#options = { maxAtOnce: 4, patienceMs: 5_000, maxWaiting: 4_096, maxWaitingOfOrg: 256, ...options };
    this.#tasks = new BoundedTasks(this.#options.maxAtOnce, () => {
      const task = this.#firstTries.shift() ?? this.#retries.shift();
      return task && (() => this.#try(task));
    });
  }

  /** Retries the work while it fails because of a lock, and rejects with `refusal` when the time is over. Other failures are final. */
  run<T>(orgId: string, work: () => Promise<T>, refusal: string): Promise<T> {
    const { maxWaiting, maxWaitingOfOrg, patienceMs } = this.#options;
    const ofOrg = this.#waitingOfOrg.get(orgId) ?? 0;
    if (this.#waiting >= maxWaiting || ofOrg >= maxWaitingOfOrg) return Promise.reject(refused(refusal));
    this.#waiting++;
    this.#waitingOfOrg.set(orgId, ofOrg + 1);
    return new Promise<T>((resolve, reject) => {
      const untilMs = performance.now() + patienceMs;
      this.#firstTries.push({ orgId, work, refusal, tries: 0, untilMs, resolve: resolve as Task['resolve'], reject });
      this.#tasks.pump();
    }).finally(() => this.#leave(orgId));
  }

  async idle(): Promise<void> {
    if (this.#waiting > 0) await new Promise<void>((resolve) => this.#idleWaiters.push(resolve));
  }

  async #try(task: Task): Promise<void> {
    try {
      task.resolve(await task.work());
    } catch (error) {
      const delayMs = pauseMs(PAUSES.requestHeld, task.tries++, Math.random());
      if (!isContended(error)) task.reject(error);
      else if (performance.now() + delayMs >= task.untilMs) task.reject(refused(task.refusal, error));
      else setTimeout(() => this.#retry(task), delayMs);
    }
  }

  #retry(task: Task): void {
    this.#retries.push(task);
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

const refused = (message: string, cause?: unknown): AppError => new AppError('UNAVAILABLE', { message, retryAfterMs: 1_000, cause });
