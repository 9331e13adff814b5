import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { AppError } from '../../src/core/errors.ts';
import {
  classify,
  FAILURE_CATEGORIES,
  JobCancelledError,
  JobTimeoutError,
  LeaseLostError,
  PermanentError,
  TemporaryError,
} from '../../src/core/failure.ts';

describe('TemporaryError', () => {
  it('carries message, cause, code and the shortest wait [GM-8.18] [GM-8.19] [GM-8.20]', () => {
    const cause = new Error('socket closed');
    const error = new TemporaryError('mail server busy', { cause, code: 'SMTP_451', retryAfter: 'PT30S' });
    expect(error).toBeInstanceOf(Error);
    expect(error.message).toBe('mail server busy');
    expect(error.cause).toBe(cause);
    expect(classify(error)).toMatchObject({
      category: 'TEMPORARY',
      code: 'SMTP_451',
      message: 'mail server busy',
      retryAfterMs: 30_000,
    });
    expect('cause' in new TemporaryError('alone')).toBe(false);
  });

  it.each([
    ['30s', 30_000],
    ['PT1.5S', 1_500],
    [30, 30_000],
    [{ ms: 250 }, 250],
  ])('reads retryAfter %j [GM-8.21]', (retryAfter, ms) => {
    expect(classify(new TemporaryError('later', { retryAfter })).retryAfterMs).toBe(ms);
  });

  it('refuses a retryAfter that is no duration', () => {
    expect(() => new TemporaryError('later', { retryAfter: 'soon' })).toThrow('retryAfter');
    expect(() => new TemporaryError('later', { retryAfter: { ms: -1 } })).toThrow('retryAfter');
  });

  it('takes its code from the cause, or a default', () => {
    const cause = Object.assign(new Error('reset'), { code: 'ECONNRESET' });
    expect(classify(new TemporaryError('x', { cause })).code).toBe('ECONNRESET');
    expect(classify(new TemporaryError('x')).code).toBe('TEMPORARY_ERROR');
  });

  it('has a code that can be stored, whatever it was given', () => {
    const cause = Object.assign(new Error('x'), { code: 'A\0B' });
    expect(classify(new TemporaryError('x', { cause })).code).toBe('A\uFFFDB');
    expect(classify(new PermanentError('x', { code: 'é'.repeat(200) })).code).toBe('é'.repeat(128));
    expect(classify(new PermanentError('x', { code: 7 as unknown as string }))).toMatchObject({
      category: 'PERMANENT',
      code: '7',
    });
  });
});

describe('PermanentError', () => {
  it('carries message, cause and code [GM-8.18] [GM-8.22] [GM-8.23] [GM-8.24]', () => {
    const cause = new Error('no row');
    const error = new PermanentError('account closed', { cause, code: 'ACCOUNT_CLOSED' });
    expect(error.message).toBe('account closed');
    expect(error.cause).toBe(cause);
    expect(error.code).toBe('ACCOUNT_CLOSED');
    expect(new PermanentError('no code given').code).toBe('PERMANENT_ERROR');
    expect(classify(error)).toMatchObject({ category: 'PERMANENT', code: 'ACCOUNT_CLOSED', message: 'account closed' });
  });
});

describe('classify', () => {
  it('puts anything whatever into exactly one category [GM-8.01]', () => {
    const abort = fc.constantFrom(undefined, 'timeout', 'cancel', 'lost_lease', 'lifetime');
    fc.assert(
      fc.property(fc.anything(), abort, (thrown, cause) => {
        const failure = classify(thrown, cause as never);
        expect(FAILURE_CATEGORIES).toContain(failure.category);
        expect(failure.code).not.toBe('');
        expect(failure.message).not.toBe(undefined);
      }),
    );
    expect(FAILURE_CATEGORIES).toEqual(['TEMPORARY', 'PERMANENT', 'TIMEOUT', 'CANCELLED', 'SYSTEM']);
  });

  it('takes an untyped error for temporary', () => {
    expect(classify(new Error('odd'))).toMatchObject({
      category: 'TEMPORARY',
      code: 'UNCLASSIFIED_ERROR',
      message: 'odd',
    });
    expect(classify('a string')).toEqual({ category: 'TEMPORARY', code: 'UNCLASSIFIED_ERROR', message: 'a string' });
    expect(classify(undefined)).toMatchObject({ category: 'TEMPORARY', code: 'UNCLASSIFIED_ERROR' });
  });

  it.each([
    ['timeout', 'TIMEOUT', 'EXECUTION_TIMEOUT'],
    ['lifetime', 'TIMEOUT', 'LIFETIME_EXCEEDED'],
    ['cancel', 'CANCELLED', 'CANCELLED'],
    ['lost_lease', 'SYSTEM', 'LEASE_LOST'],
  ] as const)('lets an abort by %s decide, whatever the handler throws then', (abort, category, code) => {
    for (const thrown of [new PermanentError('x'), new TemporaryError('x'), new Error('x'), null]) {
      expect(classify(thrown, abort)).toMatchObject({ category, code });
    }
  });

  it('ends an attempt that exceeded its time with a timeout error [GM-4.05]', () => {
    const failure = classify(new JobTimeoutError(), 'timeout');
    expect(failure.category).toBe('TIMEOUT');
    expect(failure.message).toContain('exceeded its execution timeout');
  });

  it('knows the abort reasons when a handler throws them on', () => {
    expect(classify(new JobTimeoutError()).category).toBe('TIMEOUT');
    expect(classify(new JobCancelledError()).category).toBe('CANCELLED');
    expect(classify(new LeaseLostError()).category).toBe('SYSTEM');
  });

  it('knows the errors of the library itself', () => {
    expect(classify(new AppError('INVALID_REQUEST'))).toMatchObject({ category: 'PERMANENT', code: 'INVALID_REQUEST' });
    expect(classify(new AppError('LEASE_LOST'))).toMatchObject({ category: 'SYSTEM', code: 'LEASE_LOST' });
    expect(classify(new AppError('UNAVAILABLE'))).toMatchObject({ category: 'TEMPORARY', code: 'UNAVAILABLE' });
  });

  it('never throws itself, not even on a value that resists being read [GM-8.01]', () => {
    const hostile = new Proxy(new Error('x'), {
      get: () => {
        throw new Error('no');
      },
    });
    expect(classify(hostile)).toMatchObject({ category: 'TEMPORARY', code: 'UNCLASSIFIED_ERROR' });
    expect(classify(hostile, 'timeout')).toMatchObject({ category: 'TIMEOUT', code: 'EXECUTION_TIMEOUT' });
  });

  it('bounds message and stack in bytes, at whole characters', () => {
    const error = new Error('é'.repeat(5_000));
    error.stack = `x${'é'.repeat(9_000)}`;
    const failure = classify(error);
    expect(Buffer.byteLength(failure.message)).toBe(4_096);
    expect(Buffer.byteLength(failure.stackTrace ?? '')).toBe(8_191);
    expect(failure.stackTrace).not.toContain('\uFFFD');
  });

  it('makes text that PostgreSQL can store', () => {
    const { message } = classify(new Error('a\0b\ud800c'));
    expect(message).toBe('a\uFFFDb\uFFFDc');
  });
});

describe('secrets in what a handler threw [AB-obs.08]', () => {
  it.each([
    ['401 for GET /me, Authorization: Bearer tiny-secret', '401 for GET /me, Authorization: [masked]'],
    ['login failed for user=ada&password=hunter2&realm=x', 'login failed for user=ada&password=[masked]&realm=x'],
    ['body was {"api_key": "k-123", "n": 1}', 'body was {"api_key": [masked], "n": 1}'],
    ['connect to postgres://ada:hunter2@db:5432/x failed', 'connect to postgres://ada:[masked]@db:5432/x failed'],
    ['Unexpected token } in JSON at position 12', 'Unexpected token } in JSON at position 12'],
    ['https://example.com:8080/a?b=c returned 500', 'https://example.com:8080/a?b=c returned 500'],
  ])('are masked in the message and in the stack: %s', (message, shown) => {
    const failure = classify(new Error(message));
    expect(failure.message).toBe(shown);
    expect(failure.stackTrace?.split('\n')[0]).toBe(`Error: ${shown}`);
  });

  it('leave the frames of a stack as they are', () => {
    const error = new Error('token=abc');
    error.stack = 'Error: token=abc\n    at read (file:///srv/app/token.ts:12:3)';
    expect(classify(error).stackTrace).toBe('Error: token=[masked]\n    at read (file:///srv/app/token.ts:12:3)');
  });

  it('are masked in the values of its context', () => {
    const context = { request: 'GET /x?access_token=abc', response: { headers: { 'set-cookie': 'abc' } } };
    expect(classify(Object.assign(new Error('x'), { context })).context).toEqual({
      request: 'GET /x?access_token=[masked]',
      response: '{"headers":{"set-cookie":"[masked]"}}',
    });
  });

  it('do not make a long message costly', () => {
    for (const part of ['a', 'a-', 'token ', 'eyJ-', '://a:']) {
      expect(classify(new Error(part.repeat(100_000))).message.length).toBeLessThanOrEqual(4_096);
    }
  });
});

describe('the context of a failure', () => {
  const contextOf = (context: unknown) => classify(Object.assign(new Error('x'), { context })).context;

  it('is a map of strings', () => {
    expect(contextOf({ orderId: 42, shop: 'north', nested: { a: [1] }, absent: undefined })).toEqual({
      orderId: '42',
      shop: 'north',
      nested: '{"a":[1]}',
    });
    expect(contextOf('text')).toBe(undefined);
    expect(contextOf({})).toBe(undefined);
  });

  it.each(['password', 'db_password', 'apiKey', 'api-key', 'X-Api-Key', 'accessToken', 'Authorization', 'client_secret'])(
    'masks %s, at the top and inside',
    (name) => {
      expect(contextOf({ [name]: 'hunter2', inner: { [name]: 'hunter2' } })).toEqual({
        [name]: '[masked]',
        inner: JSON.stringify({ [name]: '[masked]' }),
      });
    },
  );

  it('keeps ordinary names in clear', () => {
    expect(contextOf({ author: 'ann', passenger: 'bob', keyboard: 'us' })).toEqual({
      author: 'ann',
      passenger: 'bob',
      keyboard: 'us',
    });
  });

  it('survives a value that cannot be written', () => {
    const cycle: Record<string, unknown> = {};
    cycle.self = cycle;
    expect(contextOf({ cycle })).toEqual({ cycle: '[unserializable]' });
  });
});
