import { parseDuration } from './duration.ts';
import { AppError } from './errors.ts';

/** A duration string such as `PT30S` or `30s`, an integer of seconds, or milliseconds spelled out. */
type RetryAfter = string | number | { readonly ms: number };

export interface TemporaryErrorOptions {
  readonly cause?: unknown;
  readonly code?: string;
  /** The shortest wait before the next attempt. */
  readonly retryAfter?: RetryAfter;
}

export interface PermanentErrorOptions {
  readonly cause?: unknown;
  readonly code?: string;
}

/** Thrown by a handler when trying again later may help. */
export class TemporaryError extends Error {
  readonly code: string;
  readonly retryAfterMs: number | undefined;

  constructor(message: string, options: TemporaryErrorOptions = {}) {
    super(message, causeOf(options));
    this.name = 'TemporaryError';
    this.code = options.code ?? codeOf(options.cause) ?? 'TEMPORARY_ERROR';
    this.retryAfterMs = options.retryAfter === undefined ? undefined : retryAfterMs(options.retryAfter);
  }
}

/** Thrown by a handler when trying again cannot help. */
export class PermanentError extends Error {
  readonly code: string;

  constructor(message: string, options: PermanentErrorOptions = {}) {
    super(message, causeOf(options));
    this.name = 'PermanentError';
    this.code = options.code ?? codeOf(options.cause) ?? 'PERMANENT_ERROR';
  }
}

/** The abort reason of a job that somebody cancelled. */
export class JobCancelledError extends Error {
  readonly code = 'CANCELLED';

  constructor(message = 'the job was cancelled') {
    super(message);
    this.name = 'JobCancelledError';
  }
}

/** The abort reason of an attempt that ran out of time. */
export class JobTimeoutError extends Error {
  readonly code = 'EXECUTION_TIMEOUT';

  constructor(message = 'the attempt exceeded its execution timeout') {
    super(message);
    this.name = 'JobTimeoutError';
  }
}

/** The abort reason of an attempt whose job now belongs to another worker. */
export class LeaseLostError extends Error {
  readonly code = 'LEASE_LOST';

  constructor(message = 'the worker no longer holds the job') {
    super(message);
    this.name = 'LeaseLostError';
  }
}

function causeOf({ cause }: { readonly cause?: unknown }): ErrorOptions | undefined {
  return cause === undefined ? undefined : { cause };
}

function codeOf(cause: unknown): string | undefined {
  if (typeof cause !== 'object' || cause === null || !('code' in cause)) return undefined;
  return typeof cause.code === 'string' && cause.code !== '' ? cause.code : undefined;
}

function retryAfterMs(input: RetryAfter): number {
  if (typeof input === 'object') {
    if (Number.isFinite(input.ms) && input.ms >= 0) return Math.round(input.ms);
    throw new AppError('INVALID_REQUEST', { message: 'retryAfter.ms must be zero or more milliseconds' });
  }
  const parsed = parseDuration(input);
  if (parsed.ok) return parsed.ms;
  throw new AppError('INVALID_REQUEST', { message: `retryAfter: ${parsed.message}` });
}
