/** One thing wrong with one member of a request or a setting. */
export interface Issue {
  readonly field: string;
  readonly code: string;
  readonly message: string;
}

interface CatalogueEntry {
  readonly message: string;
  readonly remedy: string;
}

/** Every error the program can name. Callers match by code; the wording may change. */
export const ERRORS = {
  INVALID_REQUEST: {
    message: 'the request is not valid',
    remedy: 'Correct the members named in the details and send the request again.',
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
    remedy: 'Read the job again and decide anew.',
  },
  UNAUTHORIZED: { message: 'the credentials are missing or not valid', remedy: 'Send a valid API key.' },
  FORBIDDEN: { message: 'the credentials do not allow this', remedy: 'Use a key that carries the permission.' },
  INTERNAL_ERROR: {
    message: 'something failed that was not expected',
    remedy: 'Look at the cause; report it if it is not yours to fix.',
  },
  UNAVAILABLE: { message: 'the service cannot answer now', remedy: 'Try again shortly.' },
  TIMED_OUT: { message: 'the operation did not finish in its time', remedy: 'Try again, or allow it more time.' },
  NOT_RUNNING: { message: 'the service is not running', remedy: 'Start it before using it.' },
  ALREADY_RUNNING: {
    message: 'the service is already running',
    remedy: 'Start it once, and stop it before starting again.',
  },
  SHUTTING_DOWN: { message: 'the service is shutting down', remedy: 'Send the request to another process, or later.' },
  NOT_SERIALIZABLE: {
    message: 'the value cannot be written as JSON',
    remedy: 'Use plain objects, arrays, strings, finite numbers, booleans and null, without cycles.',
  },
  ILLEGAL_TRANSITION: {
    message: 'a job cannot make this change of state',
    remedy: 'See the table of states in the reference.',
  },
  LEASE_LOST: {
    message: 'the job is no longer held by this worker',
    remedy: 'Stop working on it; another attempt owns it.',
  },
  INVALID_HANDLER: { message: 'the handler cannot be registered', remedy: 'Correct the members named in the details.' },
  UNKNOWN_TYPE: { message: 'no handler is registered for this job type', remedy: 'Register a handler for it.' },
  SCHEMA_TOO_NEW: {
    message: 'the database was migrated by a newer version',
    remedy: 'Run that version or a later one against this database.',
  },
  SCHEMA_TOO_OLD: { message: 'the database has not been migrated', remedy: 'Run `millrace migrate`.' },
  MIGRATION_FAILED: {
    message: 'a migration could not be applied',
    remedy: 'Look at the cause; nothing of the failed migration was kept.',
  },
  DATABASE_UNSAFE: {
    message: 'the database server may lose acknowledged work',
    remedy: 'Turn on fsync, full_page_writes and synchronous_commit.',
  },
  DATABASE_POOLED: {
    message: 'a pooler stands between this process and the database server',
    remedy: 'Give the address of the server itself: sessions, their settings and LISTEN do not pass through a pooler.',
  },
  DATABASE_TOO_OLD: { message: 'the database server is too old', remedy: 'Use PostgreSQL 15 or later.' },
  DATABASE_UNREACHABLE: {
    message: 'the database cannot be reached',
    remedy: 'Check the address, the credentials and that the server is up.',
  },
  EMBEDDED_UNAVAILABLE: {
    message: 'the embedded database cannot run here',
    remedy: 'Set DATABASE_URL to a PostgreSQL server.',
  },
  HOME_IN_USE: {
    message: 'another process uses this data folder',
    remedy: 'Stop that process, or choose another folder.',
  },
  HOME_UNUSABLE: { message: 'the data folder cannot be used', remedy: 'Check that it exists and can be written.' },
  EMBEDDED_DISK_FULL: {
    message: 'the disk of the embedded database is full',
    remedy: 'Free some space, or set MILLRACE_HOME to a folder on a larger disk.',
  },
  EMBEDDED_PORT_TAKEN: {
    message: 'the embedded database found no port to listen on',
    remedy: 'Start again, or set DATABASE_URL to a PostgreSQL server.',
  },
  EMBEDDED_FOREIGN_DATA: {
    message: 'the data folder holds files of another program',
    remedy: 'Move them away, or set MILLRACE_HOME to another folder.',
  },
  EMBEDDED_NEWER_DATA: {
    message: 'the data folder was written by a newer PostgreSQL',
    remedy: 'Run the newer version that made it.',
  },
  EMBEDDED_OLDER_DATA: {
    message: 'the data folder was written by an older PostgreSQL',
    remedy: 'Dump it with the version that made it and load it into a new home.',
  },
  EMBEDDED_START_FAILED: {
    message: 'the embedded database did not start',
    remedy: 'Correct what its log reports, or set DATABASE_URL to a PostgreSQL server.',
  },
  EMBEDDED_UNSUPPORTED_PLATFORM: {
    message: 'there is no embedded database for this platform',
    remedy: 'Set DATABASE_URL to a PostgreSQL server.',
  },
} as const satisfies Record<string, CatalogueEntry>;

export type ErrorCode = keyof typeof ERRORS;

/** Which limit a refused request met, and how near its holder was to it. */
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
  /** Of QUOTA_EXCEEDED. */
  readonly quota?: Quota;
  /** A finer word for doors that have one. */
  readonly problem?: string;
  /** Of UNAVAILABLE: nobody can tell whether it was done. */
  readonly mayHaveHappened?: boolean;
  readonly cause?: unknown;
}

const REPEAT = 'Repeat it, with the same idempotencyKey if it submits jobs: they are then made once.';

export class AppError extends Error {
  readonly code: ErrorCode;
  readonly details: readonly Issue[];
  readonly retryAfterMs: number | undefined;
  readonly quota: Quota | undefined;
  readonly problem: string | undefined;
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

  get remedy(): string {
    return this.mayHaveHappened ? REPEAT : ERRORS[this.code].remedy;
  }
}

export function isAppError(error: unknown, code?: ErrorCode): error is AppError {
  return error instanceof AppError && (code === undefined || error.code === code);
}
