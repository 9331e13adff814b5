import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { classify } from '../../src/core/failure.ts';

const withMembers = (members: object) => Object.assign(new Error('boom'), members);
const named = (name: string) => withMembers({ name });
const verdict = (error: unknown) => {
  const { category, code } = classify(error);
  return `${category} ${code}`;
};

describe('temporary failures', () => {
  it.each(['ETIMEDOUT', 'ECONNRESET', 'ECONNREFUSED', 'EAI_AGAIN', 'UND_ERR_CONNECT_TIMEOUT', 'UND_ERR_HEADERS_TIMEOUT'])(
    'a network fault %s [GM-8.07]',
    (code) => {
      expect(verdict(withMembers({ code }))).toBe(`TEMPORARY NETWORK_${code}`);
    },
  );

  it('the timeout of a fetch, as the platform throws it [GM-8.07]', () => {
    expect(verdict(new DOMException('The operation timed out', 'TimeoutError'))).toBe('TEMPORARY TIMEOUT');
    const fetchFailed = new TypeError('fetch failed', { cause: withMembers({ code: 'UND_ERR_BODY_TIMEOUT' }) });
    expect(verdict(fetchFailed)).toBe('TEMPORARY NETWORK_UND_ERR_BODY_TIMEOUT');
  });

  it.each([[{ status: 503 }], [{ statusCode: 503 }], [{ response: { status: 503 } }], [{ $metadata: { httpStatusCode: 503 } }]])(
    'an external 503 in %j [GM-8.08]',
    (members) => {
      expect(verdict(withMembers(members))).toBe('TEMPORARY HTTP_503');
    },
  );

  it('a rate limit, with the wait it asks for [GM-8.09]', () => {
    expect(classify(withMembers({ status: 429, headers: { 'retry-after': '7' } }))).toMatchObject({
      category: 'TEMPORARY',
      code: 'HTTP_429',
      retryAfterMs: 7_000,
    });
    const response = { status: 429, headers: new Headers({ 'Retry-After': '3' }) };
    expect(classify(withMembers({ response })).retryAfterMs).toBe(3_000);
    expect(classify(withMembers({ status: 429, headers: { 'retry-after': 'Wed, 21 Oct' } })).retryAfterMs).toBe(undefined);
    expect(verdict(named('RateLimitError'))).toBe('TEMPORARY RATE_LIMIT');
  });

  it('a resource that is not available for the moment [GM-8.10]', () => {
    expect(verdict(withMembers({ code: 'EBUSY' }))).toBe('TEMPORARY EBUSY');
    expect(verdict(withMembers({ code: 'EMFILE' }))).toBe('TEMPORARY EMFILE');
    expect(verdict(withMembers({ code: '53300' }))).toBe('TEMPORARY SQLSTATE_53300');
    expect(verdict(withMembers({ code: '55P03' }))).toBe('TEMPORARY SQLSTATE_55P03');
  });

  it('a detected deadlock, and its kin in the database [GM-8.11]', () => {
    expect(verdict(withMembers({ code: '40P01' }))).toBe('TEMPORARY SQLSTATE_40P01');
    expect(verdict(withMembers({ code: '40001' }))).toBe('TEMPORARY SQLSTATE_40001');
    expect(verdict(withMembers({ code: '08006' }))).toBe('TEMPORARY SQLSTATE_08006');
  });

  it.each([408, 425, 500, 502, 504])('an external %i', (status) => {
    expect(verdict(withMembers({ status }))).toBe(`TEMPORARY HTTP_${status}`);
  });
});

describe('permanent failures', () => {
  it('an invalid payload, by the issues of any Standard Schema [GM-8.12]', () => {
    const result = z.object({ to: z.email() }).safeParse({ to: 3 });
    expect(verdict(result.error)).toBe('PERMANENT VALIDATION_FAILED');
    expect(verdict({ issues: [{ message: 'expected a string', path: ['to'] }] })).toBe('PERMANENT VALIDATION_FAILED');
    expect(verdict(named('InvalidPayloadError'))).toBe('PERMANENT INVALID_PAYLOAD');
    expect(classify({ issues: [] }).category).toBe('TEMPORARY');
  });

  it('a missing referenced entity [GM-8.13]', () => {
    expect(verdict(named('NotFoundError'))).toBe('PERMANENT NOT_FOUND');
    expect(verdict(named('EntityNotFoundError'))).toBe('PERMANENT ENTITY_NOT_FOUND');
    expect(verdict(withMembers({ status: 404 }))).toBe('PERMANENT HTTP_404');
    expect(verdict(withMembers({ code: '23503' }))).toBe('PERMANENT SQLSTATE_23503');
  });

  it('a permission denied [GM-8.14]', () => {
    expect(verdict(named('ForbiddenError'))).toBe('PERMANENT FORBIDDEN');
    expect(verdict(named('AccessDeniedException'))).toBe('PERMANENT ACCESS_DENIED');
    expect(verdict(withMembers({ code: 'EACCES' }))).toBe('PERMANENT EACCES');
    expect(verdict(withMembers({ code: '42501' }))).toBe('PERMANENT SQLSTATE_42501');
    for (const status of [401, 403]) expect(verdict(withMembers({ status }))).toBe(`PERMANENT HTTP_${status}`);
  });

  it('a business rule violation [GM-8.15]', () => {
    expect(verdict(named('BusinessRuleError'))).toBe('PERMANENT BUSINESS_RULE');
    expect(verdict(named('BusinessRuleViolationError'))).toBe('PERMANENT BUSINESS_RULE_VIOLATION');
  });

  it('an external 400 [GM-8.16]', () => {
    expect(verdict(withMembers({ status: 400 }))).toBe('PERMANENT HTTP_400');
    expect(verdict(withMembers({ response: { statusCode: 400 } }))).toBe('PERMANENT HTTP_400');
  });

  it('a validation failure [GM-8.17]', () => {
    expect(verdict(named('ValidationError'))).toBe('PERMANENT VALIDATION');
    expect(verdict(named('ZodError'))).toBe('PERMANENT ZOD');
    expect(verdict(withMembers({ status: 422 }))).toBe('PERMANENT HTTP_422');
  });
});

describe('system failures', () => {
  it.each([
    [new RangeError('Array buffer allocation failed'), 'OUT_OF_MEMORY'],
    [withMembers({ code: 'ERR_WORKER_OUT_OF_MEMORY' }), 'ERR_WORKER_OUT_OF_MEMORY'],
    [withMembers({ code: 'ENOMEM' }), 'ENOMEM'],
    [withMembers({ code: 'ENOSPC' }), 'ENOSPC'],
  ])('resource exhaustion: %s [GM-8.06]', (error, code) => {
    expect(verdict(error)).toBe(`SYSTEM ${code}`);
  });
});

describe('the search for evidence', () => {
  it('follows causes, nearest first', () => {
    const wrapped = new Error('sync failed', { cause: new Error('step', { cause: named('ForbiddenError') }) });
    expect(verdict(wrapped)).toBe('PERMANENT FORBIDDEN');
    expect(verdict(Object.assign(new Error('x', { cause: named('ForbiddenError') }), { status: 503 }))).toBe('TEMPORARY HTTP_503');
  });

  it('ends on causes that form a circle', () => {
    const error: Error & { cause?: unknown } = new Error('round');
    error.cause = error;
    expect(verdict(error)).toBe('TEMPORARY UNCLASSIFIED_ERROR');
  });

  it('does not take a success status or an unknown code for evidence', () => {
    expect(verdict(withMembers({ status: 200 }))).toBe('TEMPORARY UNCLASSIFIED_ERROR');
    expect(verdict(withMembers({ code: 'MY_CODE' }))).toBe('TEMPORARY UNCLASSIFIED_ERROR');
    expect(verdict(withMembers({ code: 42 }))).toBe('TEMPORARY UNCLASSIFIED_ERROR');
  });
});
