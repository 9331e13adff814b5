import { AppError } from '../../core/errors.ts';
import { raceWithTimeout } from '../../engine/race-with-timeout.ts';

/** A dead connection must not block later callers for longer than this. */
export const LONGEST_STATEMENT_MS = 3_000;

/** Returns the result, or throws UNAVAILABLE after `limitMs`. The operation continues, and a later caller may use its result. */
export async function within<T>(limitMs: number, result: Promise<T>): Promise<T> {
  return raceWithTimeout(result, limitMs, () => {
    throw unavailable();
  });
}

export const unavailable = (): AppError => new AppError('UNAVAILABLE', { message: 'The database does not respond.', retryAfterMs: 1_000 });
