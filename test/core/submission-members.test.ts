import { describe, expect, it } from 'vitest';
import { PROFILES } from '../../src/core/policy.ts';
import { accepted, issues } from './submission-fixture.ts';

const ID = '4b9f0f8e-4b7a-4d5e-8f00-1234567890ab';

describe('policy', () => {
  it('takes a timeout up to that of the profile [GA-1.07] [GM-4.10]', () => {
    expect(accepted({ timeout: '90s' }).policy.timeoutMs).toBe(90_000);
    expect(accepted({ timeout: 'PT30M' }).policy.timeoutMs).toBe(1_800_000);
    expect(issues({ timeout: 'PT30M1S' })).toEqual(['timeout OUT_OF_RANGE']);
    expect(issues({ timeout: 0 })).toEqual(['timeout OUT_OF_RANGE']);
    expect(issues({ timeout: 'long' })).toEqual(['timeout INVALID_DURATION']);
  });

  it('takes 1 to 100 attempts [GA-1.08] [GA-1.09]', () => {
    expect(accepted({ maxAttempts: 1 }).policy.maxAttempts).toBe(1);
    expect(accepted({ maxAttempts: 100 }).policy.maxAttempts).toBe(100);
    for (const maxAttempts of [0, 101, 2.5, '3', true]) expect(issues({ maxAttempts })).toEqual(['maxAttempts OUT_OF_RANGE']);
  });

  it('takes a backoff, member by member [GA-1.10] [GA-1.17] [GA-1.18] [GA-1.19] [GA-1.20]', () => {
    const backoff = { strategy: 'LINEAR', initialDelay: 'PT2S', maxDelay: 60, multiplier: 1.5, jitter: false };
    expect(accepted({ backoff }).policy.backoff).toEqual({
      strategy: 'LINEAR',
      initialDelayMs: 2_000,
      maxDelayMs: 60_000,
      multiplier: 1.5,
      jitter: false,
    });
    expect(accepted({ backoff: { strategy: 'CONSTANT' } }).policy.backoff).toEqual({
      ...PROFILES.gopherqueue.backoff,
      strategy: 'CONSTANT',
    });
  });

  it('refuses a backoff that makes no sense, naming the member', () => {
    expect(issues({ backoff: 'fast' })).toEqual(['backoff INVALID_TYPE']);
    expect(issues({ backoff: { strategy: 'linear' } })).toEqual(['backoff.strategy INVALID_VALUE']);
    expect(issues({ backoff: { initialDelay: 'x' } })).toEqual(['backoff.initialDelay INVALID_DURATION']);
    expect(issues({ backoff: { multiplier: '2' } })).toEqual(['backoff.multiplier INVALID_TYPE']);
    expect(issues({ backoff: { multiplier: 0.5 } })).toEqual(['backoff.multiplier OUT_OF_RANGE']);
    expect(issues({ backoff: { jitter: 'yes' } })).toEqual(['backoff.jitter INVALID_TYPE']);
    expect(issues({ backoff: { initial_delay: 1 } })).toEqual(['backoff.initial_delay UNKNOWN_MEMBER']);
    expect(issues({ backoff: { initialDelay: '2h' } })).toEqual(['backoff.maxDelay OUT_OF_RANGE']);
  });

  it('takes CUSTOM only when a handler of the type supplies a function [GA-1.17]', () => {
    const backoff = { strategy: 'CUSTOM' } as const;
    expect(issues({ backoff })).toEqual(['backoff.strategy CUSTOM_BACKOFF_UNKNOWN']);
    expect(issues({ backoff }, { registration: {} })).toEqual(['backoff.strategy CUSTOM_BACKOFF_UNKNOWN']);
    expect(accepted({ backoff }, { registration: { hasCustomBackoff: true } }).policy.backoff.strategy).toBe('CUSTOM');
    const announced = { backoff, hasCustomBackoff: false } as const;
    expect(issues({ backoff }, { registration: announced })).toEqual(['backoff.strategy CUSTOM_BACKOFF_UNKNOWN']);
    expect(accepted({}, { registration: announced }).policy.backoff.strategy).toBe('CUSTOM');
  });

  it('prefers the submission to the registration', () => {
    const registration = { maxAttempts: 8, timeoutMs: 5_000 };
    expect(accepted({ maxAttempts: 2 }, { registration }).policy).toMatchObject({ maxAttempts: 2, timeoutMs: 5_000 });
  });
});

describe('idempotency key', () => {
  it('is any string of 1 to 256 characters [GM-1.09] [GM-1.10] [GA-1.11]', () => {
    for (const idempotencyKey of ['k', 'order 42/ä\n\t{}', 'x'.repeat(256), '😀'.repeat(256)]) {
      expect(accepted({ idempotencyKey }).idempotencyKey).toBe(idempotencyKey);
    }
    expect(issues({ idempotencyKey: 'x'.repeat(257) })).toEqual(['idempotencyKey TOO_LONG']);
    expect(issues({ idempotencyKey: '😀'.repeat(257) })).toEqual(['idempotencyKey TOO_LONG']);
    expect(issues({ idempotencyKey: '' })).toEqual(['idempotencyKey TOO_SHORT']);
    expect(issues({ idempotencyKey: 42 })).toEqual(['idempotencyKey INVALID_TYPE']);
    expect(issues({ idempotencyKey: 'a\0' })).toEqual(['idempotencyKey INVALID_TEXT']);
  });

  it('brings a fingerprint of everything but the key', () => {
    const base = { payload: { a: 1, b: [2] }, delay: 'PT5M', tags: { x: 'y' }, idempotencyKey: 'one' };
    const mark = (members: object, more = {}) => accepted({ ...base, ...members }, more).fingerprint;
    expect(mark({})).toMatch(/^[0-9a-f]{64}$/);
    expect(mark({ idempotencyKey: 'two' })).toBe(mark({}));
    expect(mark({ payload: { b: [2], a: 1 }, delay: 300 })).toBe(mark({}));
    expect(mark({}, { registration: { maxAttempts: 9 }, nowMs: 99 })).toBe(mark({}));
    const changes = [{ payload: { a: 1 } }, { delay: 301 }, { tags: null }, { type: 'other' }, { priority: 'LOW' }];
    const others = [{ maxAttempts: 2 }, { queue: 'q:x' }, { correlationId: 'c' }, { dependsOn: [ID] }, { timeout: 9 }];
    const marks = [...changes, ...others, { payload: new Uint8Array([1]) }].map((change) => mark(change));
    expect(new Set([...marks, mark({})]).size).toBe(marks.length + 1);
  });
});

describe('labels', () => {
  it('takes a correlation id of at most 256 characters [GA-1.12] [GM-10.13]', () => {
    expect(accepted({ correlationId: 'trace-1' }).correlationId).toBe('trace-1');
    expect(issues({ correlationId: 'x'.repeat(257) })).toEqual(['correlationId TOO_LONG']);
  });

  it('takes a map of at most 50 tags, names to 128 and values to 256 characters [GA-1.13] [GM-10.12]', () => {
    const many = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, index) => [`t${index}`, 'v']));
    expect(accepted({ tags: { team: 'mail', empty: '' } }).tags).toEqual({ team: 'mail', empty: '' });
    expect(issues({ tags: many(50) })).toEqual([]);
    expect(issues({ tags: many(51) })).toEqual(['tags TOO_MANY']);
    expect(issues({ tags: { ['n'.repeat(128)]: 'v'.repeat(256) } })).toEqual([]);
    expect(issues({ tags: { ['n'.repeat(129)]: 'v' } })).toEqual([`tags.${'n'.repeat(128)} TOO_LONG`]);
    expect(issues({ tags: { a: 'v'.repeat(257) } })).toEqual(['tags.a TOO_LONG']);
    expect(issues({ tags: { a: 1, b: null } })).toEqual(['tags.a INVALID_TYPE', 'tags.b INVALID_TYPE']);
    for (const tags of ['x', ['x'], 5]) expect(issues({ tags })).toEqual(['tags INVALID_TYPE']);
  });

  it('takes an absolute http or https callback [GA-1.16] [GM-10.14]', () => {
    for (const callbackUrl of ['https://example.com/hook?x=1', 'http://localhost:8080/']) {
      expect(accepted({ callbackUrl }).callbackUrl).toBe(callbackUrl);
    }
    for (const callbackUrl of ['/hook', 'ftp://example.com', 'javascript:alert(1)', 'example.com']) {
      expect(issues({ callbackUrl })).toEqual(['callbackUrl INVALID_URL']);
    }
    expect(issues({ callbackUrl: `https://example.com/${'x'.repeat(2_048)}` })).toEqual(['callbackUrl TOO_LONG']);
  });
});

describe('dependencies', () => {
  it('are a list of job ids, each counted once [GA-1.14]', () => {
    expect(accepted({ dependsOn: [ID, ID.toUpperCase()] }).dependsOn).toEqual([ID]);
    expect(issues({ dependsOn: ID })).toEqual(['dependsOn INVALID_TYPE']);
    expect(issues({ dependsOn: [ID, 'x', 3] })).toEqual(['dependsOn[1] INVALID_ID', 'dependsOn[2] INVALID_ID']);
  });

  it('are at most a thousand [GM-6.09]', () => {
    const ids = Array.from({ length: 1_001 }, (_, index) => ID.slice(0, -4) + String(index).padStart(4, '0'));
    expect(accepted({ dependsOn: ids.slice(1) }).dependsOn).toHaveLength(1_000);
    expect(issues({ dependsOn: ids })).toEqual(['dependsOn DEPENDENCY_BREADTH']);
  });

  it('are of one of three types, AFTER unless said [GA-1.15]', () => {
    for (const dependencyType of ['AFTER', 'AFTER_ANY', 'CHAIN']) {
      expect(accepted({ dependsOn: [ID], dependencyType }).dependencyType).toBe(dependencyType);
    }
    expect(accepted({ dependsOn: [ID] }).dependencyType).toBe('AFTER');
    for (const dependencyType of ['FAN_OUT', 'after', 1]) {
      expect(issues({ dependsOn: [ID], dependencyType })).toEqual(['dependencyType INVALID_VALUE']);
    }
  });
});
