import { type AppError, ERRORS, type ErrorCode } from '../../core/errors.ts';

type Problem = { readonly status: number; readonly title: string; readonly action: string };

const problem = (status: number, title: string, action: string): Problem => ({ status, title, action });

/** Every error of the execution API: its status, its title and what the caller can do about it. */
export const PROBLEMS = {
  RFA_REQUEST_MALFORMED: problem(400, 'Malformed request', 'Send JSON of the documented shape with every required field.'),
  RFA_JOB_VALIDATION_FAILED: problem(400, 'Validation failed', 'Correct the fields named in errors and send the request again.'),
  RFA_REQUEST_UNKNOWN_HOST: problem(
    400,
    'Unknown host',
    'Use the address of the server, or ask its operator to add the name to server.allowed_hosts.',
  ),
  RFA_AUTH_INVALID_CREDENTIALS: problem(401, 'Invalid credentials', 'Send a valid API key as Authorization: Bearer <key>.'),
  RFA_AUTH_TOKEN_EXPIRED: problem(401, 'Credentials expired', 'Use another key of the client, or issue a new one.'),
  RFA_AUTH_FORBIDDEN: problem(403, 'Forbidden', 'Use a key of the owning client that has the required scope.'),
  RFA_AUTH_API_KEY_DISABLED: problem(403, 'API key disabled', 'Use another key: this one is revoked.'),
  RFA_REQUEST_CROSS_SITE: problem(
    403,
    'Cross-site request',
    'Call the server from its own pages, or ask its operator to add the origin to server.cors_origins.',
  ),
  RFA_JOB_NOT_FOUND: problem(
    404,
    'Job not found',
    'Check the job id. A report exists once its job has ended. Jobs and reports are deleted after their retention.',
  ),
  RFA_CLIENT_NOT_FOUND: problem(404, 'Client not found', 'Check the client id.'),
  RFA_KEY_NOT_FOUND: problem(404, 'Key not found', 'Check the key id.'),
  RFA_WEBHOOK_NOT_FOUND: problem(404, 'Webhook not found', 'Check the ids. Deliveries are deleted after their retention.'),
  RFA_REQUEST_NOT_FOUND: problem(404, 'Path not found', 'Check the path against the documentation of the API.'),
  RFA_REQUEST_METHOD_NOT_ALLOWED: problem(405, 'Method not allowed', 'Use a method named in the Allow header.'),
  RFA_REQUEST_NOT_ACCEPTABLE: problem(406, 'Not acceptable', 'Accept application/json, or omit the Accept header.'),
  RFA_JOB_CONFLICT: problem(409, 'Conflict', 'Read the job to see its state. If it has no attempts left, submit it as a new job.'),
  RFA_KEY_CONFLICT: problem(409, 'Key conflict', 'Another request changed the key first: use the key that it returned.'),
  RFA_WEBHOOK_CONFLICT: problem(409, 'Webhook conflict', 'Read the webhook to see its current state.'),
  RFA_EXEC_IDEMPOTENCY_CONFLICT: problem(
    409,
    'Idempotency key reused',
    'Use a new key for new work, or repeat the first request unchanged.',
  ),
  RFA_REQUEST_PAYLOAD_TOO_LARGE: problem(413, 'Payload too large', 'Send a smaller body.'),
  RFA_REQUEST_UNSUPPORTED_MEDIA_TYPE: problem(415, 'Unsupported media type', 'Send the body as application/json, uncompressed.'),
  RFA_REQUEST_RATE_LIMITED: problem(429, 'Too many requests', 'Wait for the seconds given in Retry-After, then send fewer requests.'),
  RFA_INTERNAL: problem(500, 'Internal error', 'Retry later. If the error persists, report it with the value of instance.'),
  RFA_STORAGE_DB_ERROR: problem(503, 'Database error', 'Retry later: nothing was changed.'),
  RFA_STORAGE_UNAVAILABLE: problem(
    503,
    'Storage unavailable',
    'Retry later, with the same idempotency key if the request creates something.',
  ),
  RFA_STORAGE_FULL: problem(503, 'Storage full', ERRORS.DATABASE_DISK_FULL.remedy),
  RFA_EXEC_QUEUE_FULL: problem(503, 'Queue full', 'Retry after the seconds given in Retry-After, lower the load, or add workers.'),
  RFA_EXEC_WORKER_UNAVAILABLE: problem(503, 'No worker available', 'Start a worker. Jobs stay queued until a worker runs.'),
  RFA_CONFIG_INVALID: problem(503, 'Server misconfigured', 'Ask the operator to correct the configuration.'),
  RFA_EXEC_TIMEOUT: problem(504, 'Timed out', 'Retry later, with the same idempotency key if the request creates something.'),
  RFA_DEPENDENCY_TIMEOUT: problem(504, 'Dependency timed out', 'Retry later. If the error persists, check the database.'),
};

export type ProblemCode = keyof typeof PROBLEMS;

export const PROBLEM_CODES = Object.keys(PROBLEMS) as ProblemCode[];

export function isProblemCode(value: unknown): value is ProblemCode {
  return typeof value === 'string' && Object.hasOwn(PROBLEMS, value);
}

/** The problem code of an error: the one that the error names, or the one that its error code maps to. */
export function problemOf(error: AppError): ProblemCode {
  if (isProblemCode(error.problem)) return error.problem;
  const rule = RULES[error.code];
  return typeof rule === 'function' ? rule(error) : (rule ?? 'RFA_INTERNAL');
}

type Rule = ProblemCode | ((error: AppError) => ProblemCode);

const RULES: Partial<Record<ErrorCode, Rule>> = {
  INVALID_REQUEST: refusalOf,
  NOT_SERIALIZABLE: 'RFA_JOB_VALIDATION_FAILED',
  UNAUTHORIZED: (error) => (has(error, EXPIRED) ? 'RFA_AUTH_TOKEN_EXPIRED' : 'RFA_AUTH_INVALID_CREDENTIALS'),
  FORBIDDEN: (error) => (has(error, REVOKED) ? 'RFA_AUTH_API_KEY_DISABLED' : 'RFA_AUTH_FORBIDDEN'),
  NOT_FOUND: 'RFA_REQUEST_NOT_FOUND',
  CONFLICT: 'RFA_JOB_CONFLICT',
  DUPLICATE: 'RFA_EXEC_IDEMPOTENCY_CONFLICT',
  QUOTA_EXCEEDED: 'RFA_REQUEST_RATE_LIMITED',
  INVALID_CONFIG: 'RFA_CONFIG_INVALID',
  TIMED_OUT: 'RFA_EXEC_TIMEOUT',
  SHUTTING_DOWN: 'RFA_STORAGE_UNAVAILABLE',
  UNAVAILABLE: (error) => {
    if (has(error, LATE)) return 'RFA_EXEC_TIMEOUT';
    return isStatementFailure(error) ? 'RFA_STORAGE_DB_ERROR' : 'RFA_STORAGE_UNAVAILABLE';
  },
  INTERNAL_ERROR: (error) => (isStatementFailure(error) ? 'RFA_STORAGE_DB_ERROR' : 'RFA_INTERNAL'),
  DATABASE_UNREACHABLE: 'RFA_STORAGE_UNAVAILABLE',
  DATABASE_DISK_FULL: 'RFA_STORAGE_FULL',
};

const EXPIRED: ReadonlySet<string> = new Set(['EXPIRED']);
const REVOKED: ReadonlySet<string> = new Set(['REVOKED']);
const LATE: ReadonlySet<string> = new Set(['REQUEST_TIMEOUT']);
const UNSUPPORTED: ReadonlySet<string> = new Set(['UNSUPPORTED_MEDIA_TYPE', 'UNSUPPORTED_ENCODING']);
const MALFORMED: ReadonlySet<string> = new Set([
  'INVALID_JSON',
  'INVALID_TYPE',
  'REQUIRED',
  'TOO_DEEP',
  'INVALID_TEXT',
  'INVALID_ENCODING',
]);

const has = ({ details }: AppError, codes: ReadonlySet<string>): boolean => details.some(({ code }) => codes.has(code));

function refusalOf(error: AppError): ProblemCode {
  if (error.details.some(({ field, code }) => field === 'body' && code === 'PAYLOAD_TOO_LARGE')) {
    return 'RFA_REQUEST_PAYLOAD_TOO_LARGE';
  }
  if (has(error, UNSUPPORTED)) return 'RFA_REQUEST_UNSUPPORTED_MEDIA_TYPE';
  // Without details the request as a whole could not be read.
  return error.details.length === 0 || has(error, MALFORMED) ? 'RFA_REQUEST_MALFORMED' : 'RFA_JOB_VALIDATION_FAILED';
}

const SQLSTATE = /^[0-9A-Z]{5}$/;
// SQLSTATE classes of an unreachable database: connection failures, lack of resources, start-up and shutdown.
const AWAY = /^(?:08|53|57P)/;

/** Whether the database rejected a statement, rather than being unreachable. */
function isStatementFailure({ cause }: AppError): boolean {
  for (let each = cause; typeof each === 'object' && each !== null; each = (each as { cause?: unknown }).cause) {
    const { code } = each as { code?: unknown };
    // A SQLSTATE has a digit. `EPIPE` and other codes of the operating system have the same length but no digit.
    if (typeof code === 'string' && SQLSTATE.test(code) && /\d/.test(code)) return !AWAY.test(code);
  }
  return false;
}
