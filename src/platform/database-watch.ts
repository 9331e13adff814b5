import { isAppError } from '../core/errors.ts';
import type { EngineEvents } from '../engine/events.ts';
import { isDiskFull, isUnavailable } from '../ledger/driver/statement.ts';
import type { Notices } from './notices.ts';

const PROBE_EVERY_MS = 500;
/** The same error is printed at most once in this time. */
const QUIET_MS = 10_000;

/** A source of errors, with a way to check whether its database responds. */
export type Watched = {
  on(event: 'error', listener: (facts: EngineEvents['error']) => void): unknown;
  probe(): Promise<unknown>;
};

type Loss = 'database_lost' | 'disk_full';

/** Prints when the database is lost or its disk is full, and when that is over. The worker retries in any case. */
export class DatabaseWatch {
  readonly #watched: Watched;
  readonly #out: Notices;
  readonly #saidAtMs = new Map<string, number>();
  #lostAtMs: number | null = null;
  #told: Loss | null = null;
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
    if (isDiskFull(error)) this.#lose('disk_full', message);
    else if (isUnavailable(error)) this.#lose('database_lost', message);
    else this.#complain(where, message);
  }

  #lose(event: Loss, message: string): void {
    if (this.#lostAtMs === null) {
      this.#lostAtMs = performance.now();
      this.#probeLater();
    }
    if (this.#told === event || !this.#mayTell(event)) return;
    this.#told = event;
    this.#out.event({ event, message }, LOSSES[event](message));
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
    if (this.#told !== null && !this.#isStopped) {
      this.#out.event({ event: 'database_back', awayMs }, `The database is back after ${(awayMs / 1_000).toFixed(1)} s.`);
    }
    this.#told = null;
  }
}

const LOSSES: Record<Loss, (message: string) => string> = {
  database_lost: (message) => `The database is unreachable (${message}). Retrying until it is back.`,
  disk_full: (message) =>
    `The disk of the database is full (${message}). No job is accepted. Free space on it, or enlarge it. Retrying until there is room.`,
};

/** The message of the database driver, if an AppError wraps it. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const code = (error as NodeJS.ErrnoException).code;
  return isAppError(error) && error.cause instanceof Error ? reasonOf(error.cause) : error.message || code || error.name;
}
