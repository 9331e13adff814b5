import { boundText } from './bounded-text.ts';
import { dictionary } from './dictionary.ts';
import { type ErrorCode, isAppError } from './errors.ts';
import { judge } from './failure-rules.ts';
import { JobCancelledError, JobTimeoutError, LeaseLostError, PermanentError, PostponeError, TemporaryError } from './handler-errors.ts';
import { maskSecrets } from './mask-secrets.ts';
import { isSecretName, MASKED } from './secret-names.ts';

export { JobCancelledError, JobTimeoutError, LeaseLostError, PermanentError, PostponeError, TemporaryError };

export const FAILURE_CATEGORIES = ['TEMPORARY', 'PERMANENT', 'TIMEOUT', 'CANCELLED', 'SYSTEM'] as const;

export type FailureCategory = (typeof FAILURE_CATEGORIES)[number];

/** Why an attempt failed. */
export interface Failure {
  /** Whether a retry may help, and who caused the failure. */
  readonly category: FailureCategory;
  /** What went wrong, for programs. */
  readonly code: string;
  /** What went wrong, for people. */
  readonly message: string;
  /** The stack of the error that the handler threw. */
  readonly stackTrace?: string;
  /** More facts about the failure, by name. */
  readonly context?: Readonly<Record<string, string>>;
  /** The delay that the handler asked for. */
  readonly retryAfterMs?: number;
  /** The handler asked not to count the attempt. */
  readonly countsAsAttempt?: false;
}

/** Why the engine aborted an attempt. */
export type AbortCause = 'timeout' | 'cancel' | 'lost_lease' | 'lifetime';

type Kind = Pick<Failure, 'category' | 'code' | 'retryAfterMs' | 'countsAsAttempt'>;

export const LIFETIME_FAILURE: Failure = Object.freeze({
  category: 'TIMEOUT',
  code: 'LIFETIME_EXCEEDED',
  message: 'the job exceeded its total lifetime',
});

export const CANCELLED_FAILURE: Failure = Object.freeze({
  category: 'CANCELLED',
  code: 'CANCELLED',
  message: 'the job was cancelled',
});

const ABORTS = {
  timeout: { category: 'TIMEOUT', code: 'EXECUTION_TIMEOUT', message: 'the attempt exceeded its execution timeout' },
  cancel: CANCELLED_FAILURE,
  lost_lease: { category: 'SYSTEM', code: 'LEASE_LOST', message: 'the worker lost the lease of the job' },
  lifetime: LIFETIME_FAILURE,
} as const satisfies Record<AbortCause, Failure>;

const UNCLASSIFIED = { category: 'TEMPORARY', code: 'UNCLASSIFIED_ERROR' } as const;

// Errors that the library throws inside a handler. Those that are not listed are temporary.
const APP_ERRORS: Partial<Record<ErrorCode, FailureCategory>> = {
  INVALID_REQUEST: 'PERMANENT',
  NOT_SERIALIZABLE: 'PERMANENT',
  NOT_FOUND: 'PERMANENT',
  DUPLICATE: 'PERMANENT',
  FORBIDDEN: 'PERMANENT',
  LEASE_LOST: 'SYSTEM',
};

const MAX_CODE_BYTES = 256;
const MAX_MESSAGE_BYTES = 4_096;
const MAX_STACK_BYTES = 8_192;
const MAX_CONTEXT_ENTRIES = 32;
const MAX_CONTEXT_NAME_BYTES = 128;
const MAX_CONTEXT_VALUE_BYTES = 1_024;

/** Classifies what a handler threw. After an abort only the cause of the abort counts, because the handler was being stopped. */
export function classify(error: unknown, abort?: AbortCause): Failure {
  if (abort !== undefined) return { ...ABORTS[abort], ...readSafely(() => evidenceOf(error), {}) };
  return readSafely(
    () => ({
      ...boundedKind(kindOf(error)),
      message: maskedText(messageOf(error), MAX_MESSAGE_BYTES),
      ...evidenceOf(error),
    }),
    { ...UNCLASSIFIED, message: 'the handler threw a value that cannot be read' },
  );
}

// A handler can throw an object whose members throw when they are read.
function readSafely<T>(read: () => T, otherwise: T): T {
  try {
    return read();
  } catch {
    return otherwise;
  }
}

function kindOf(error: unknown): Kind {
  if (error instanceof TemporaryError) {
    const { code, retryAfterMs, countsAsAttempt } = error;
    return {
      category: 'TEMPORARY',
      code,
      ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
      ...(countsAsAttempt ? {} : { countsAsAttempt: false }),
    };
  }
  if (error instanceof PermanentError) return { category: 'PERMANENT', code: error.code };
  if (error instanceof JobCancelledError) return { category: 'CANCELLED', code: error.code };
  if (error instanceof JobTimeoutError) return { category: 'TIMEOUT', code: error.code };
  if (error instanceof LeaseLostError) return { category: 'SYSTEM', code: error.code };
  if (isAppError(error)) return { category: APP_ERRORS[error.code] ?? 'TEMPORARY', code: error.code };
  return judge(error) ?? UNCLASSIFIED;
}

// Failures are searched and counted by code, so every code must be storable.
const boundedKind = (kind: Kind): Kind => ({ ...kind, code: boundText(String(kind.code), MAX_CODE_BYTES) });

function messageOf(error: unknown): string {
  if (typeof error === 'string') return error;
  if (typeof error === 'object' && error !== null && 'message' in error && typeof error.message === 'string') {
    return error.message;
  }
  return 'the handler threw a value that is not an Error';
}

function evidenceOf(error: unknown): Pick<Failure, 'stackTrace' | 'context'> {
  if (typeof error !== 'object' || error === null) return {};
  const stack = 'stack' in error && typeof error.stack === 'string' ? error.stack : undefined;
  const context = 'context' in error ? contextOf(error.context) : undefined;
  return {
    ...(stack === undefined ? {} : { stackTrace: maskedStack(stack) }),
    ...(context === undefined ? {} : { context }),
  };
}

/** Errors of HTTP clients and databases often quote a header, a URL or a body with a secret. Cut first, because masking reads all of it. */
const maskedText = (text: string, maxBytes: number): string => boundText(maskSecrets(text.slice(0, maxBytes)), maxBytes);

const FIRST_FRAME = /^ {4}at /m;

/** The message at the beginning is masked. The frames name files, lines and columns, which look like names with values. */
function maskedStack(stack: string): string {
  const frames = FIRST_FRAME.exec(stack)?.index ?? stack.length;
  return boundText(`${maskedText(stack.slice(0, frames), MAX_STACK_BYTES)}${stack.slice(frames)}`, MAX_STACK_BYTES);
}

/** The `context` of an error as strings, with the values of secret-sounding names masked. */
function contextOf(source: unknown): Record<string, string> | undefined {
  if (typeof source !== 'object' || source === null || Array.isArray(source)) return undefined;
  const entries = Object.entries(source)
    .filter(([, value]) => value !== undefined)
    .slice(0, MAX_CONTEXT_ENTRIES)
    .map(([name, value]): [string, string] => [boundText(name, MAX_CONTEXT_NAME_BYTES), contextValue(name, value)]);
  return entries.length === 0 ? undefined : dictionary(entries);
}

function contextValue(name: string, value: unknown): string {
  if (isSecretName(name)) return MASKED;
  return maskedText(typeof value === 'string' ? value : jsonOf(value), MAX_CONTEXT_VALUE_BYTES);
}

function jsonOf(value: unknown): string {
  try {
    return JSON.stringify(value, (name, member) => (isSecretName(name) ? MASKED : member)) ?? String(value);
  } catch {
    return '[unserializable]';
  }
}
