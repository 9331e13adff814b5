import { describe, expect, it } from 'vitest';
import { AppError, type AppErrorOptions, ERRORS, type ErrorCode } from '../../src/core/errors.ts';
import { PROBLEM_CODES, PROBLEMS, problemOf } from '../../src/http/execution/problem-codes.ts';

const of = (code: ErrorCode, options: AppErrorOptions = {}) => problemOf(new AppError(code, options));
const detail = (code: string, field = 'x'): AppErrorOptions => ({ details: [{ field, code, message: 'm' }] });
const sql = (code: string): AppErrorOptions => ({ cause: Object.assign(new Error('sql'), { code }) });

describe('the problems of the execution API', () => {
  it('all begin with RFA_ and a word for what they are about [FR-14.70]', () => {
    const contexts = /^RFA_(?:REQUEST|JOB|AUTH|CLIENT|KEY|WEBHOOK|EXEC|STORAGE|DEPENDENCY|CONFIG|INTERNAL)(?:_[A-Z]+)*$/;
    for (const code of PROBLEM_CODES) expect(code).toMatch(contexts);
  });

  it('each have an error status, a title and something to do', () => {
    for (const code of PROBLEM_CODES) {
      const { status, title, action } = PROBLEMS[code];
      expect(status).toBeGreaterThanOrEqual(400);
      expect(title).toMatch(/^[A-Z]/);
      expect(action).toMatch(/^[A-Z].*\.$/);
    }
  });

  it('are one for every error of the catalogue', () => {
    for (const code of Object.keys(ERRORS) as ErrorCode[]) expect(PROBLEM_CODES).toContain(of(code));
  });

  it.each([
    ['INVALID_JSON', 'RFA_REQUEST_MALFORMED'],
    ['INVALID_TYPE', 'RFA_REQUEST_MALFORMED'],
    ['REQUIRED', 'RFA_REQUEST_MALFORMED'],
    ['TOO_DEEP', 'RFA_REQUEST_MALFORMED'],
    ['INVALID_VALUE', 'RFA_JOB_VALIDATION_FAILED'],
    ['IN_THE_PAST', 'RFA_JOB_VALIDATION_FAILED'],
    ['UNSUPPORTED_MEDIA_TYPE', 'RFA_REQUEST_UNSUPPORTED_MEDIA_TYPE'],
    ['UNSUPPORTED_ENCODING', 'RFA_REQUEST_UNSUPPORTED_MEDIA_TYPE'],
    ['PAYLOAD_TOO_LARGE', 'RFA_JOB_VALIDATION_FAILED'],
  ])('tell an invalid request by its detail: %s', (code, problem) => {
    expect(of('INVALID_REQUEST', detail(code))).toBe(problem);
  });

  it('tell a body that is too large from a definition that is', () => {
    expect(of('INVALID_REQUEST', detail('PAYLOAD_TOO_LARGE', 'body'))).toBe('RFA_REQUEST_PAYLOAD_TOO_LARGE');
  });

  it('blame the whole request where no member is named', () => {
    expect(of('INVALID_REQUEST')).toBe('RFA_REQUEST_MALFORMED');
  });

  it.each([
    ['UNAUTHORIZED', 'UNKNOWN', 'RFA_AUTH_INVALID_CREDENTIALS'],
    ['UNAUTHORIZED', 'EXPIRED', 'RFA_AUTH_TOKEN_EXPIRED'],
    ['FORBIDDEN', 'MISSING_SCOPE', 'RFA_AUTH_FORBIDDEN'],
    ['FORBIDDEN', 'REVOKED', 'RFA_AUTH_API_KEY_DISABLED'],
    ['CONFLICT', 'X', 'RFA_JOB_CONFLICT'],
    ['DUPLICATE', 'X', 'RFA_EXEC_IDEMPOTENCY_CONFLICT'],
    ['QUOTA_EXCEEDED', 'X', 'RFA_REQUEST_RATE_LIMITED'],
    ['NOT_FOUND', 'X', 'RFA_REQUEST_NOT_FOUND'],
    ['UNAVAILABLE', 'REQUEST_TIMEOUT', 'RFA_EXEC_TIMEOUT'],
    ['UNAVAILABLE', 'X', 'RFA_STORAGE_UNAVAILABLE'],
    ['SHUTTING_DOWN', 'X', 'RFA_STORAGE_UNAVAILABLE'],
    ['INVALID_CONFIG', 'X', 'RFA_CONFIG_INVALID'],
    ['TIMED_OUT', 'X', 'RFA_EXEC_TIMEOUT'],
    ['ILLEGAL_TRANSITION', 'X', 'RFA_INTERNAL'],
  ] as const)('say %s with %s as %s', (code, word, problem) => {
    expect(of(code, detail(word))).toBe(problem);
  });

  it.each([
    ['23505', 'RFA_STORAGE_DB_ERROR'],
    ['57014', 'RFA_STORAGE_DB_ERROR'],
    ['57P01', 'RFA_STORAGE_UNAVAILABLE'],
    ['08006', 'RFA_STORAGE_UNAVAILABLE'],
    ['53300', 'RFA_STORAGE_UNAVAILABLE'],
    ['EPIPE', 'RFA_STORAGE_UNAVAILABLE'],
    ['ECONNREFUSED', 'RFA_STORAGE_UNAVAILABLE'],
  ])('tell a database that refused from one that is away: %s', (code, problem) => {
    expect(of('UNAVAILABLE', sql(code))).toBe(problem);
    // The same where it is wrapped once more.
    expect(of('UNAVAILABLE', { cause: new AppError('UNAVAILABLE', sql(code)) })).toBe(problem);
  });

  it('tell an unexpected error of the database from other unexpected ones', () => {
    expect(of('INTERNAL_ERROR', sql('42703'))).toBe('RFA_STORAGE_DB_ERROR');
    expect(of('INTERNAL_ERROR', { cause: new TypeError('x') })).toBe('RFA_INTERNAL');
    expect(of('INTERNAL_ERROR', sql('EPIPE'))).toBe('RFA_INTERNAL');
  });

  it('are what an error names itself, if it names one of them', () => {
    expect(of('CONFLICT', { problem: 'RFA_KEY_CONFLICT' })).toBe('RFA_KEY_CONFLICT');
    expect(of('CONFLICT', { problem: 'RFA_NONSENSE' })).toBe('RFA_JOB_CONFLICT');
  });
});
