/** The errors of this room. Each message names the folder or the server, and says what to do. */
import { AppError, type ErrorCode } from '../core/errors.ts';

export function failure(code: ErrorCode, message: string, cause?: unknown): AppError {
  return new AppError(code, { message, cause });
}

/** The `code` of a system error (`ENOENT`, `EACCES`, ...) or of a PostgreSQL error (`57P03`, ...). */
export function codeOf(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null || !('code' in error)) return undefined;
  return typeof error.code === 'string' ? error.code : undefined;
}

export function messageOf(error: unknown): string {
  if (error instanceof AggregateError && error.message === '') return error.errors.map(messageOf).join('; ');
  return error instanceof Error ? error.message : String(error);
}

/** The last code is from PostgreSQL. */
const DISK_FULL_CODES = ['ENOSPC', 'EDQUOT', '53100'];

/** Replaces the error of a full disk by one that says what to do. Returns every other error unchanged. */
export function explainDiskFull(error: unknown, folder: string): unknown {
  return DISK_FULL_CODES.includes(codeOf(error) ?? '') ? diskFull(folder, error) : error;
}

export function diskFull(folder: string, cause?: unknown): AppError {
  return failure(
    'EMBEDDED_DISK_FULL',
    `The disk of ${folder} is full. Free some space there, or set MILLRACE_HOME to a folder on a larger disk, and start again.`,
    cause,
  );
}
