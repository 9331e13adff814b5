import { lookUp } from './dictionary.ts';

/** The category and code of an error that is not one of our classes. */
export interface Verdict {
  readonly category: 'TEMPORARY' | 'PERMANENT' | 'SYSTEM';
  readonly code: string;
  readonly retryAfterMs?: number;
}

type Rule = (error: Record<string, unknown>) => Verdict | null;

const NETWORK_CODES = new Set([
  'ECONNRESET',
  'ECONNREFUSED',
  'ECONNABORTED',
  'EPIPE',
  'ETIMEDOUT',
  'ESOCKETTIMEDOUT',
  'EHOSTUNREACH',
  'EHOSTDOWN',
  'ENETUNREACH',
  'ENETDOWN',
  'ENETRESET',
  'ENOTFOUND',
  'EAI_AGAIN',
  'UND_ERR_CONNECT_TIMEOUT',
  'UND_ERR_HEADERS_TIMEOUT',
  'UND_ERR_BODY_TIMEOUT',
  'UND_ERR_SOCKET',
]);
const BUSY_CODES = new Set(['EBUSY', 'EAGAIN', 'EMFILE', 'ENFILE', 'ENOBUFS', 'ETXTBSY']);
const EXHAUSTED_CODES = new Set(['ENOMEM', 'ENOSPC', 'EDQUOT', 'ERR_WORKER_OUT_OF_MEMORY']);
const DENIED_CODES = new Set(['EACCES', 'EPERM', 'ENOENT']);

const SQLSTATE = /^[0-9][0-9A-Z]{4}$/;
const SQL_CLASSES: Record<string, Verdict['category']> = {
  '08': 'TEMPORARY', // connection
  '40': 'TEMPORARY', // deadlock, serialization
  '53': 'TEMPORARY', // resources
  '55': 'TEMPORARY', // lock not available
  '57': 'TEMPORARY', // shutdown, statement timeout
  '22': 'PERMANENT', // data
  '23': 'PERMANENT', // integrity
  '28': 'PERMANENT', // authorization
  '42': 'PERMANENT', // syntax, privilege
  '58': 'SYSTEM',
};

// Class names without the ending `Error` or `Exception`.
const PERMANENT_NAMES = new Set([
  'Validation',
  'Zod',
  'Schema',
  'Vali',
  'Assertion',
  'InvalidPayload',
  'InvalidInput',
  'InvalidArgument',
  'BadRequest',
  'UnprocessableEntity',
  'NotFound',
  'EntityNotFound',
  'ResourceNotFound',
  'RecordNotFound',
  'Forbidden',
  'Unauthorized',
  'AccessDenied',
  'Permission',
  'PermissionDenied',
  'Ownership',
  'BusinessRule',
  'BusinessRuleViolation',
  'DomainRule',
  'PolicyViolation',
]);
const TEMPORARY_NAMES = new Set([
  'Timeout',
  'ConnectTimeout',
  'ConnectionTimeout',
  'NetworkTimeout',
  'RequestTimeout',
  'Network',
  'Connection',
  'RateLimit',
  'RateLimitExceeded',
  'TooManyRequests',
  'Throttling',
  'Throttled',
  'ServiceUnavailable',
  'ResourceUnavailable',
  'Deadlock',
]);
const OUT_OF_MEMORY = /out of memory|array buffer allocation failed/i;
const TEMPORARY_STATUSES = new Set([408, 425, 429]);

// The most specific rule comes first: a status or a code says more than a class name.
const RULES: readonly Rule[] = [byIssues, byStatus, byCode, byName];

/** Applies the rules to the error, then to its causes. Returns null when no rule matches. */
export function judge(error: unknown): Verdict | null {
  let current = error;
  for (let depth = 0; depth < 5 && typeof current === 'object' && current !== null; depth++) {
    const candidate = current as Record<string, unknown>;
    for (const rule of RULES) {
      const verdict = rule(candidate);
      if (verdict) return verdict;
    }
    current = candidate.cause;
  }
  return null;
}

/** The issues of a Standard Schema result or of an error that carries them. */
function byIssues({ issues }: Record<string, unknown>): Verdict | null {
  if (!Array.isArray(issues) || issues.length === 0) return null;
  const all = issues.every((issue) => typeof issue?.message === 'string');
  return all ? { category: 'PERMANENT', code: 'VALIDATION_FAILED' } : null;
}

function byStatus(error: Record<string, unknown>): Verdict | null {
  const response = record(error.response);
  const metadata = record(error.$metadata);
  const status = [error.status, error.statusCode, response.status, response.statusCode, metadata.httpStatusCode].find(
    (value): value is number => typeof value === 'number' && value >= 400 && value <= 599,
  );
  if (status === undefined) return null;
  const category = status >= 500 || TEMPORARY_STATUSES.has(status) ? 'TEMPORARY' : 'PERMANENT';
  const retryAfterMs = category === 'TEMPORARY' ? (retryAfterOf(error) ?? retryAfterOf(response)) : undefined;
  return { category, code: `HTTP_${status}`, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) };
}

// Only the form in seconds, because the form with a date needs a clock.
function retryAfterOf({ headers }: Record<string, unknown>): number | undefined {
  if (typeof headers !== 'object' || headers === null) return undefined;
  const value = headers instanceof Headers ? headers.get('retry-after') : record(headers)['retry-after'];
  return /^\d{1,9}$/.test(String(value)) ? Number(value) * 1_000 : undefined;
}

function byCode({ code }: Record<string, unknown>): Verdict | null {
  if (typeof code !== 'string') return null;
  if (NETWORK_CODES.has(code)) return { category: 'TEMPORARY', code: `NETWORK_${code}` };
  if (BUSY_CODES.has(code)) return { category: 'TEMPORARY', code };
  if (EXHAUSTED_CODES.has(code)) return { category: 'SYSTEM', code };
  if (DENIED_CODES.has(code)) return { category: 'PERMANENT', code };
  const category = SQLSTATE.test(code) ? lookUp(SQL_CLASSES, code.slice(0, 2)) : undefined;
  return category === undefined ? null : { category, code: `SQLSTATE_${code}` };
}

function byName({ name, message }: Record<string, unknown>): Verdict | null {
  if (typeof message === 'string' && name === 'RangeError' && OUT_OF_MEMORY.test(message)) {
    return { category: 'SYSTEM', code: 'OUT_OF_MEMORY' };
  }
  if (typeof name !== 'string') return null;
  const stem = name.replace(/(?:Error|Exception)$/, '');
  if (PERMANENT_NAMES.has(stem)) return { category: 'PERMANENT', code: constantCase(stem) };
  if (TEMPORARY_NAMES.has(stem)) return { category: 'TEMPORARY', code: constantCase(stem) };
  return null;
}

function constantCase(name: string): string {
  return name.replace(/(?<=[a-z])(?=[A-Z])/g, '_').toUpperCase();
}

function record(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}
