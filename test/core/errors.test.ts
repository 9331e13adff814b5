import { describe, expect, it } from 'vitest';
import { AppError, ERRORS, type ErrorCode, isAppError } from '../../src/core/errors.ts';

describe('the error catalogue', () => {
  it.each(Object.entries(ERRORS))('%s says what happened and what to do', (code, { message, remedy }) => {
    expect(code).toMatch(/^[A-Z][A-Z_]*[A-Z]$/);
    expect(message).toMatch(/^[a-z].*[^.]$/);
    expect(remedy).toMatch(/^[A-Z].*\.$/);
  });

  it('holds the codes of the queue contract', () => {
    const codes: ErrorCode[] = [
      'NOT_FOUND',
      'INVALID_REQUEST',
      'DUPLICATE',
      'QUOTA_EXCEEDED',
      'UNAUTHORIZED',
      'FORBIDDEN',
      'INTERNAL_ERROR',
    ];
    expect(Object.keys(ERRORS)).toEqual(expect.arrayContaining(codes));
  });
});

describe('AppError', () => {
  it('has the catalogue as its default and is matched by code', () => {
    const error = new AppError('NOT_FOUND');
    expect(error).toBeInstanceOf(Error);
    expect(error.message).toBe(ERRORS.NOT_FOUND.message);
    expect(error.remedy).toBe(ERRORS.NOT_FOUND.remedy);
    expect(error.details).toEqual([]);
    expect(isAppError(error)).toBe(true);
    expect(isAppError(error, 'NOT_FOUND')).toBe(true);
    expect(isAppError(error, 'CONFLICT')).toBe(false);
    expect(isAppError(new Error('NOT_FOUND'))).toBe(false);
  });

  it('carries details of field, code and message, a wait and a cause [GA-6.11] [GA-6.12] [GA-6.13]', () => {
    const cause = new Error('disk');
    const details = [{ field: 'delay', code: 'INVALID_DURATION', message: 'delay is not a duration' }];
    const error = new AppError('INVALID_REQUEST', { message: 'one member is wrong', details, retryAfterMs: 5, cause });
    expect(error).toMatchObject({ message: 'one member is wrong', details, retryAfterMs: 5, cause });
  });
});
