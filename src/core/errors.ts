/** One problem with one member of a request, or with one setting. */
export interface Issue {
  /** The field, as a dotted path. */
  readonly field: string;
  /** What is wrong, for programs. */
  readonly code: string;
  /** What is wrong, for people. */
  readonly message: string;
}

/** The most problems that a response lists for one request, or for one job of a batch. */
export const MAX_ISSUES = 20;

/** How many problems there are in addition to the first, for a message that shows only the first. */
export function andMore({ length }: readonly Issue[]): string {
  if (length < 2) return '';
  return ` (and ${length >= MAX_ISSUES ? 'at least ' : ''}${length - 1} more)`;
}

/** Every error code. Callers match errors by code; the wording may change. */
export const ERRORS = {
  INVALID_REQUEST: {
    message: 'the request is not valid',
    remedy: 'Correct the fields named in the details and send the request again.',
  },
  INVALID_CONFIG: {
    message: 'the configuration is not valid',
    remedy: 'Correct the settings named in the details and start again.',
  },
  NOT_FOUND: { message: 'the job does not exist', remedy: 'Check the id; jobs are removed when their retention ends.' },
  DUPLICATE: {
    message: 'the idempotency key was used for a different request',
    remedy: 'Use a new key for new work, or repeat the first request unchanged.',
  },
  QUOTA_EXCEEDED: { message: 'a limit is reached', remedy: 'Wait for the time given in retryAfterMs and try again.' },
  CONFLICT: {
    message: 'the job changed while the request was under way',
    remedy: 'Read the job again, then decide whether to repeat the request.',
  },
  UNAUTHORIZED: { message: 'the credentials are missing or not valid', remedy: 'Send a valid API key.' },
  FORBIDDEN: { message: 'the credentials do not allow this', remedy: 'Use a key that has the permission.' },
  INTERNAL_ERROR: {
    message: 'an unexpected error occurred',
    remedy: 'Look at the cause, and report the error if you cannot correct it.',
  },
  UNAVAILABLE: { message: 'the service is temporarily unavailable', remedy: 'Try again shortly.' },
  TIMED_OUT: { message: 'the operation timed out', remedy: 'Try again, or allow it more time.' },
  ALREADY_RUNNING: {
    message: 'the service is already running',
    remedy: 'Start it once, and stop it before you start it again.',
  },
  SHUTTING_DOWN: {
    message: 'the service is shutting down',
    remedy: 'Send the request to another process, or try again later.',
  },
  CLOSED: {
    message: 'this Millrace is closed',
    remedy: 'Open a new one with Millrace.open(), or make the call before close().',
  },
  NOT_SERIALIZABLE: {
    message: 'the value cannot be written as JSON',
    remedy: 'Use plain objects, arrays, strings, finite numbers, booleans and null, without cycles.',
  },
  ILLEGAL_TRANSITION: {
    message: 'the job cannot make this change of state',
    remedy: 'See the table of transitions in the reference of states.',
  },
  LEASE_LOST: {
    message: 'this worker no longer has the lease of the job',
    remedy: 'Stop working on the job: another attempt may own it.',
  },
  INVALID_HANDLER: { message: 'the handler cannot be registered', remedy: 'Correct the fields named in the details.' },
  UNKNOWN_TYPE: { message: 'no handler is registered for this job type', remedy: 'Register a handler for it.' },
  SCHEMA_TOO_NEW: {
    message: 'the database was migrated by a newer version',
    remedy: 'Run that version or a later one against this database.',
  },
  SCHEMA_TOO_OLD: { message: 'the database has not been migrated', remedy: 'Run `millrace migrate`.' },
  MIGRATION_FAILED: {
    message: 'a migration could not be applied',
    remedy: 'Look at the cause. The failed migration was rolled back.',
  },
  DATABASE_UNSAFE: {
    message: 'the database server could lose acknowledged jobs in a crash',
    remedy: 'Turn on fsync, full_page_writes and synchronous_commit.',
  },
  DATABASE_POOLED: {
    message: 'the database address leads to a connection pooler',
    remedy: 'Use the address of the server itself. Session settings and LISTEN do not work through a pooler.',
  },
  DATABASE_TOO_OLD: { message: 'the database server is too old', remedy: 'Use PostgreSQL 15 or later.' },
  DATABASE_UNREACHABLE: {
    message: 'the database cannot be reached',
    remedy: 'Check the address and the credentials, and that the server is running.',
  },
  DATABASE_DISK_FULL: {
    message: 'the disk of the database is full',
    remedy: 'Free space on the disk of the database, or ask its operator to. Then repeat the request.',
  },
  HOME_UNUSABLE: {
    message: 'the data folder cannot be used',
    remedy: 'Check that the folder exists and that this user can write to it.',
  },
  EMBEDDED_DISK_FULL: {
    message: 'the disk of the embedded database is full',
    remedy: 'Free some space, or set MILLRACE_HOME to a folder on a larger disk.',
  },
  EMBEDDED_PORT_TAKEN: {
    message: 'the embedded database could not find a free port',
    remedy: 'Start again, or set DATABASE_URL to a PostgreSQL server.',
  },
  EMBEDDED_FOREIGN_DATA: {
    message: 'the data folder contains files of another program',
    remedy: 'Move them away, or set MILLRACE_HOME to another folder.',
  },
  EMBEDDED_NEWER_DATA: {
    message: 'the data folder was written by a newer PostgreSQL',
    remedy: 'Run the newer version that created it.',
  },
  EMBEDDED_OLDER_DATA: {
    message: 'the data folder was written by an older PostgreSQL',
    remedy: 'Dump it with the version that created it, and load the dump into a new folder.',
  },
  EMBEDDED_NOT_INSTALLED: {
    message: 'the embedded database is not installed',
    remedy: 'Set DATABASE_URL to a PostgreSQL server, or run "npm install --include=optional".',
  },
  EMBEDDED_START_FAILED: {
    message: 'the embedded database did not start',
    remedy: 'Correct the error in its log, or set DATABASE_URL to a PostgreSQL server.',
  },
  EMBEDDED_UNSUPPORTED_PLATFORM: {
    message: 'the embedded database does not support this platform',
    remedy: 'Set DATABASE_URL to a PostgreSQL server.',
  },
} as const satisfies Record<string, { message: string; remedy: string }>;

/** The code of an error. Match errors by it; the wording of messages may change. */
export type ErrorCode = keyof typeof ERRORS;

/** Which limit refused a request, and how much of it was used. */
export interface Quota {
  readonly limit: string;
  readonly current: number;
  readonly maximum: number;
  readonly retryAfterMs: number;
}

export interface AppErrorOptions {
  readonly message?: string;
  readonly details?: readonly Issue[];
  readonly retryAfterMs?: number;
  /** Only for QUOTA_EXCEEDED. */
  readonly quota?: Quota;
  /** A more specific code for doors that have one. */
  readonly problem?: string;
  /** Only for UNAVAILABLE and CLOSED: the operation may have taken effect. */
  readonly mayHaveHappened?: boolean;
  readonly cause?: unknown;
}

const REPEAT = 'Repeat the request. Use the same idempotencyKey if it submits jobs, so that no job is created twice.';

/** Every error that Millrace throws on purpose. */
export class AppError extends Error {
  /** What went wrong, for programs. */
  readonly code: ErrorCode;
  /** Every field that is wrong. Empty for errors that concern no field. */
  readonly details: readonly Issue[];
  /** When to try again, if the error says so. */
  readonly retryAfterMs: number | undefined;
  /** The limit that was reached. Only for QUOTA_EXCEEDED. */
  readonly quota: Quota | undefined;
  /** A more specific code of the execution API. */
  readonly problem: string | undefined;
  /** Whether the operation may have taken effect. Only UNAVAILABLE can say so. */
  readonly mayHaveHappened: boolean;

  constructor(code: ErrorCode, options: AppErrorOptions = {}) {
    super(options.message ?? ERRORS[code].message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'AppError';
    this.code = code;
    this.details = options.details ?? [];
    this.retryAfterMs = options.retryAfterMs ?? options.quota?.retryAfterMs;
    this.quota = options.quota;
    this.problem = options.problem;
    this.mayHaveHappened = options.mayHaveHappened ?? false;
  }

  /** What to do about it. */
  get remedy(): string {
    return this.mayHaveHappened ? REPEAT : ERRORS[this.code].remedy;
  }
}

/** The error for a request with these problems. Its message is that of the first one. */
export const invalidRequest = (...details: readonly Issue[]): AppError =>
  new AppError('INVALID_REQUEST', { message: details[0]?.message, details });

/** Whether a value is an error of Millrace, optionally with this code. */
export function isAppError(error: unknown, code?: ErrorCode): error is AppError {
  return error instanceof AppError && (code === undefined || error.code === code);
}
