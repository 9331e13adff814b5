import { AppError } from '../../../core/errors.ts';
import { Issues, readTimestamp } from '../../../core/submission-fields.ts';

/** The time that a member named `since` says. */
export function readSince(text: string): Date {
  const issues = new Issues();
  const since = readTimestamp(text, 'since', issues);
  if (since === null) throw new AppError('INVALID_REQUEST', { message: issues.list[0]?.message, details: issues.list });
  return since;
}
