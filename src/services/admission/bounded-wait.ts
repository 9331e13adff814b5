import { AppError } from '../../core/errors.ts';

/** A connection that died without a word must not hold up those who come after it. */
export const LONGEST_STATEMENT_MS = 3_000;

/** The answer, or UNAVAILABLE when it takes too long. What was asked for goes on and may serve the next caller. */
export async function within<T>(limitMs: number, asked: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(unavailable()), limitMs);
  });
  try {
    return await Promise.race([asked, late]);
  } finally {
    clearTimeout(timer);
  }
}

export const unavailable = (): AppError =>
  new AppError('UNAVAILABLE', { message: 'The database does not answer.', retryAfterMs: 1_000 });
