import { isAppError } from '../core/errors.ts';
import type { EngineEvents } from '../engine/events.ts';
import { isDiskFull, isUnavailable } from '../ledger/driver/statement.ts';
import type { Log } from '../telemetry/log.ts';
import { JSON_ONLY, type Notices } from './notices.ts';

const PROBE_EVERY_MS = 500;
/** The same error is reported at most once in this time. */
const QUIET_MS = 10_000;

/** A source of errors, with a way to check whether its database responds. */
export type Watched = {
  on(event: 'error', listener: (facts: EngineEvents['error']) => void): unknown;
  probe(): Promise<unknown>;
};

type Loss = 'database_lost' | 'disk_full';

export type WatchOutput = { readonly log: Log; readonly out: Pick<Notices, 'event'> };

/** Logs when the database is lost or its disk is full, and when that is over. The worker retries in any case. */
export class DatabaseWatch {
  readonly #watched: Watched;
  readonly #log: Log;
  readonly #out: WatchOutput['out'];
  readonly #saidAtMs = new Map<string, number>();
  #lostAtMs: number | null = null;
  #told: Loss | null = null;
  #timer: NodeJS.Timeout | undefined;
  #isStopped = false;

  constructor(watched: Watched, { log, out }: WatchOutput) {
    this.#watched = watched;
    this.#log = log;
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
    this.#out.event({ event, message }, JSON_ONLY);
    if (event === 'disk_full') this.#log.error('database.disk_full', { reason: DISK_FULL, error_message: message });
    else this.#log.error('database.lost', { reason: LOST, error_message: message });
  }

  #complain(where: string, message: string): void {
    if (!this.#mayTell(`${where}: ${message}`)) return;
    this.#out.event({ event: 'trouble', where, message }, JSON_ONLY);
    this.#log.warn('process.trouble', { where, error_message: message });
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
      this.#out.event({ event: 'database_back', awayMs }, JSON_ONLY);
      // A warning, so that a person who has read of the loss also reads of its end.
      this.#log.warn('database.back', { duration_ms: awayMs });
    }
    this.#told = null;
  }
}

const LOST = 'The database is unreachable. Retrying until it is back.';
const DISK_FULL = 'The disk of the database is full. No job is accepted. Free space on it, or enlarge it. Retrying until there is room.';

/** The message of the database driver, if an AppError wraps it. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const code = (error as NodeJS.ErrnoException).code;
  return isAppError(error) && error.cause instanceof Error ? reasonOf(error.cause) : error.message || code || error.name;
}
