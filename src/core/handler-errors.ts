import { parseDuration } from './duration.ts';
import { AppError } from './errors.ts';
import { checkMembers, membersOf } from './known-members.ts';

/** A duration such as `PT30S` or `30s`, a whole number of seconds, or `{ ms }`. */
type RetryAfter = string | number | { readonly ms: number };

export interface PermanentErrorOptions {
  readonly cause?: unknown;
  readonly code?: string;
}

export interface TemporaryErrorOptions extends PermanentErrorOptions {
  /** The shortest wait before the next attempt. */
  readonly retryAfter?: RetryAfter;
  /** With false, the failed attempt does not use up one of the job's attempts. */
  readonly countsAsAttempt?: boolean;
}

export interface PostponeErrorOptions {
  /** How long to wait, or the time to wait for. */
  readonly retryAfter: RetryAfter | Date;
}

const PERMANENT_OPTIONS = membersOf<PermanentErrorOptions>({ cause: true, code: true });
const TEMPORARY_OPTIONS = membersOf<TemporaryErrorOptions>({ cause: true, code: true, retryAfter: true, countsAsAttempt: true });
const POSTPONE_OPTIONS = membersOf<PostponeErrorOptions>({ retryAfter: true });

/** A handler throws it when a later attempt may succeed. */
export class TemporaryError extends Error {
  readonly code: string;
  readonly retryAfterMs: number | undefined;
  readonly countsAsAttempt: boolean;

  constructor(message: string, options: TemporaryErrorOptions = {}) {
    checkMembers(options, TEMPORARY_OPTIONS);
    super(message, causeOf(options));
    this.name = 'TemporaryError';
    this.code = options.code ?? codeOf(options.cause) ?? 'TEMPORARY_ERROR';
    this.retryAfterMs = options.retryAfter === undefined ? undefined : retryAfterMs(options.retryAfter);
    this.countsAsAttempt = options.countsAsAttempt !== false;
  }
}

/** A handler throws it to return the job for later. The attempt has not failed and uses up none of the job's attempts. */
export class PostponeError extends Error {
  readonly code = 'POSTPONED';
  readonly retryAfter: number | Date;

  constructor(options: PostponeErrorOptions) {
    checkMembers(options, POSTPONE_OPTIONS);
    super('the handler postponed the job');
    this.name = 'PostponeError';
    this.retryAfter = postponement(options.retryAfter);
  }
}

/** A handler throws it when no later attempt can succeed. */
export class PermanentError extends Error {
  readonly code: string;

  constructor(message: string, options: PermanentErrorOptions = {}) {
    checkMembers(options, PERMANENT_OPTIONS);
    super(message, causeOf(options));
    this.name = 'PermanentError';
    this.code = options.code ?? codeOf(options.cause) ?? 'PERMANENT_ERROR';
  }
}

/** The abort reason of a job that was cancelled. */
export class JobCancelledError extends Error {
  readonly code = 'CANCELLED';

  constructor(message = 'the job was cancelled') {
    super(message);
    this.name = 'JobCancelledError';
  }
}

/** The abort reason of an attempt that exceeded its timeout. */
export class JobTimeoutError extends Error {
  readonly code = 'EXECUTION_TIMEOUT';

  constructor(message = 'the attempt exceeded its execution timeout') {
    super(message);
    this.name = 'JobTimeoutError';
  }
}

/** The abort reason of an attempt that lost its lease. */
export class LeaseLostError extends Error {
  readonly code = 'LEASE_LOST';

  constructor(message = 'the worker lost the lease of the job') {
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

function postponement(input: RetryAfter | Date | undefined): number | Date {
  if (!(input instanceof Date)) return retryAfterMs(input as RetryAfter);
  if (!Number.isNaN(input.getTime())) return input;
  throw new AppError('INVALID_REQUEST', { message: 'retryAfter is not a valid Date' });
}

function retryAfterMs(input: RetryAfter): number {
  if (typeof input === 'object' && input !== null) {
    if (Number.isFinite(input.ms) && input.ms >= 0) return Math.round(input.ms);
    throw new AppError('INVALID_REQUEST', { message: 'retryAfter.ms must be zero or greater' });
  }
  const parsed = parseDuration(input);
  if (parsed.ok) return parsed.ms;
  throw new AppError('INVALID_REQUEST', { message: `retryAfter: ${parsed.message}` });
}
