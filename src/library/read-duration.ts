import { type DurationInput, parseDuration } from '../core/duration.ts';
import { AppError } from '../core/errors.ts';

/** An option that is a duration, in milliseconds; refused by its name where it is none. */
export function durationMs(input: DurationInput, field: string): number {
  const parsed = parseDuration(input);
  if (parsed.ok) return parsed.ms;
  throw new AppError('INVALID_REQUEST', {
    message: `${field}: ${parsed.message}`,
    details: [{ field, code: 'INVALID_DURATION', message: parsed.message }],
  });
}
