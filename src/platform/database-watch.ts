import { isAppError } from '../core/errors.ts';
import type { EngineEvents } from '../engine/events.ts';
import { isUnavailable } from '../ledger/driver/statement.ts';
import type { Notices } from './notices.ts';

const PROBE_EVERY_MS = 500;
/** The same error is printed at most once in this time. */
const QUIET_MS = 10_000;

/** A source of errors, with a way to check whether its database responds. */
export type Watched = {
  on(event: 'error', listener: (facts: EngineEvents['error']) => void): unknown;
  probe(): Promise<unknown>;
};

/** Prints when the database is lost and when it is back. The worker retries in any case. */
export class DatabaseWatch {
  readonly #watched: Watched;
  readonly #out: Notices;
  readonly #saidAtMs = new Map<string, number>();
  #lostAtMs: number | null = null;
  #isTold = false;
  #timer: NodeJS.Timeout | undefined;
  #isStopped = false;

  constructor(watched: Watched, out: Notices) {
    this.#watched = watched;
    this.#out = out;
    watched.on('error', ({ error, where }) => this.#onError(error, where));
  }

  stop(): void {
    this.#isStopped = true;
    clearTimeout(this.#timer);
  }

  #onError(error: unknown, where: string): void {
    if (this.#isStopped) return;
    const message = reasonOf(error);
    if (isUnavailable(error)) this.#lose(message);
    else this.#complain(where, message);
  }

  #lose(message: string): void {
    if (this.#lostAtMs === null) {
      this.#lostAtMs = performance.now();
      this.#probeLater();
    }
    if (this.#isTold || !this.#mayTell('lost')) return;
    this.#isTold = true;
    this.#out.event({ event: 'database_lost', message }, `The database is unreachable (${message}). Retrying until it is back.`);
  }

  #complain(where: string, message: string): void {
    if (!this.#mayTell(`${where}: ${message}`)) return;
    this.#out.event({ event: 'trouble', where, message }, `Error in the ${where}: ${message}. Retrying.`);
  }

  #mayTell(what: string): boolean {
    const nowMs = performance.now();
    if (nowMs - (this.#saidAtMs.get(what) ?? Number.NEGATIVE_INFINITY) < QUIET_MS) return false;
    if (this.#saidAtMs.size > 100) this.#saidAtMs.clear();
    this.#saidAtMs.set(what, nowMs);
    return true;
  }

  #probeLater(): void {
    this.#timer = setTimeout(() => void this.#probe(), PROBE_EVERY_MS);
  }

  async #probe(): Promise<void> {
    try {
      await this.#watched.probe();
    } catch {
      if (!this.#isStopped) this.#probeLater();
      return;
    }
    const awayMs = Math.round(performance.now() - (this.#lostAtMs ?? 0));
    this.#lostAtMs = null;
    if (this.#isTold && !this.#isStopped) {
      this.#out.event({ event: 'database_back', awayMs }, `The database is back after ${(awayMs / 1_000).toFixed(1)} s.`);
    }
    this.#isTold = false;
  }
}

/** The message of the database driver, if an AppError wraps it. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const code = (error as NodeJS.ErrnoException).code;
  return isAppError(error) && error.cause instanceof Error ? reasonOf(error.cause) : error.message || code || error.name;
}
