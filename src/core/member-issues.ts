import { AppError, type Issue, isAppError } from './errors.ts';

/** Changes the fields of a refusal, and their names at the beginning of messages. Other errors stay as they are. */
export function withFields<E>(error: E, rename: (field: string, issue: Issue) => string): E | AppError {
  if (!isAppError(error, 'INVALID_REQUEST') || error.details.length === 0) return error;
  let { message } = error;
  const details = error.details.map((issue) => {
    const field = rename(issue.field, issue);
    const text = issue.message.startsWith(issue.field) ? `${field}${issue.message.slice(issue.field.length)}` : issue.message;
    message = message.replace(issue.message, () => text);
    return { ...issue, field, message: text };
  });
  return new AppError(error.code, { message, details, cause: error.cause });
}

/**
 * Runs a check of an object that is a member of the request. Issues name fields as the caller sent them: `since` becomes `filter.since`.
 */
export function withinMember<T>(member: string, check: () => T): T {
  try {
    return check();
  } catch (error) {
    throw withFields(error, (field) => (field === member ? field : `${member}.${field}`));
  }
}
