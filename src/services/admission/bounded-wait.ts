import { AppError } from '../../core/errors.ts';
import { raceWithTimeout } from '../../engine/race-with-timeout.ts';

/** A connection that died without a word must not hold up those who come after it. */
export const LONGEST_STATEMENT_MS = 3_000;

/** The answer, or UNAVAILABLE when it takes too long. What was asked for goes on and may serve the next caller. */
export async function within<T>(limitMs: number, asked: Promise<T>): Promise<T> {
  return raceWithTimeout(asked, limitMs, () => {
    throw unavailable();
  });
}

export const unavailable = (): AppError =>
  new AppError('UNAVAILABLE', { message: 'The database does not answer.', retryAfterMs: 1_000 });
