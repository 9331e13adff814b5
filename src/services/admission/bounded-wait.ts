import { setImmediate as arrivals } from 'node:timers/promises';
import { AppError } from '../../core/errors.ts';
import { raceWithTimeout } from '../../engine/race-with-timeout.ts';

/** A dead connection must not block later callers for longer than this. */
export const LONGEST_STATEMENT_MS = 3_000;

/**
 * Returns the result, or throws UNAVAILABLE after `limitMs`. The operation continues, and a later caller may use its result. After a pause of
 * this process the timer comes before the response that arrived during the pause, so that response is read first.
 */
export async function within<T>(limitMs: number, result: Promise<T>): Promise<T> {
  return raceWithTimeout(result, limitMs, async () => {
    await arrivals();
    throw unavailable();
  });
}

export const unavailable = (): AppError => new AppError('UNAVAILABLE', { message: 'The database does not respond.', retryAfterMs: 1_000 });
