import type { ErrorCode } from '../../core/errors.ts';

/** The HTTP status of each error that a caller can cause. Every other code of the catalogue is a 500. */
const STATUSES: Partial<Record<ErrorCode, number>> = {
  INVALID_REQUEST: 400,
  NOT_SERIALIZABLE: 400,
  UNAUTHORIZED: 401,
  FORBIDDEN: 403,
  NOT_FOUND: 404,
  CONFLICT: 409,
  DUPLICATE: 409,
  QUOTA_EXCEEDED: 429,
  UNAVAILABLE: 503,
  SHUTTING_DOWN: 503,
  TIMED_OUT: 503,
};

export const statusOf = (code: ErrorCode): number => STATUSES[code] ?? 500;
