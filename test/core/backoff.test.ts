import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { BACKOFF_STRATEGIES, type BackoffPolicy, backoffDelayMs, DEFAULT_BACKOFF, pauseMs } from '../../src/core/backoff.ts';
import { readSourceTree } from '../architecture/source-tree.ts';

const HOUR = 3_600_000;
const exact: BackoffPolicy = { ...DEFAULT_BACKOFF, jitter: false };
const delayOf = (policy: BackoffPolicy, retry: number, random = 0.5) => backoffDelayMs({ policy, retry, random }).delayMs;

const anyPolicy = fc.record({
  strategy: fc.constantFrom(...BACKOFF_STRATEGIES),
  initialDelayMs: fc.integer({ min: 0, max: HOUR }),
  maxDelayMs: fc.integer({ min: 0, max: 24 * HOUR }),
  multiplier: fc.double({ min: 1, max: 1_000, noNaN: true }),
  jitter: fc.boolean(),
});
const anyRetry = fc.integer({ min: 1, max: 1_000 });
const anyRandom = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });

describe('the default backoff', () => {
  it('is exponential from 1 s, doubling, at most 1 h [GM-5.02] [GM-5.03] [GM-5.04] [GM-5.05]', () => {
    expect(DEFAULT_BACKOFF.strategy).toBe('EXPONENTIAL');
    expect(DEFAULT_BACKOFF.initialDelayMs).toBe(1_000);
    expect(DEFAULT_BACKOFF.maxDelayMs).toBe(HOUR);
    expect(DEFAULT_BACKOFF.multiplier).toBe(2);
  });

  it('gives 1 s, 2 s, 4 s, 8 s and never more than an hour [GM-5.10]', () => {
    expect([1, 2, 3, 4].map((retry) => delayOf(exact, retry))).toEqual([1_000, 2_000, 4_000, 8_000]);
    for (let retry = 1; retry <= 100; retry++) expect(delayOf(DEFAULT_BACKOFF, retry, 0.999)).toBeLessThanOrEqual(HOUR);
    expect(delayOf(exact, 100)).toBe(HOUR);
  });
});

describe('the strategies', () => {
  it('constant waits the initial delay every time [GM-5.06]', () => {
    for (const retry of [1, 2, 50]) expect(delayOf({ ...exact, strategy: 'CONSTANT', initialDelayMs: 700 }, retry)).toBe(700);
  });

  it('linear waits the initial delay times the retry, up to the maximum [GM-5.07]', () => {
    const linear: BackoffPolicy = { ...exact, strategy: 'LINEAR', initialDelayMs: 1_500, maxDelayMs: 4_000 };
    expect([1, 2, 3].map((retry) => delayOf(linear, retry))).toEqual([1_500, 3_000, 4_000]);
  });

  it('exponential multiplies at each retry, up to the maximum [GM-5.08]', () => {
    const steep: BackoffPolicy = { ...exact, initialDelayMs: 100, multiplier: 3, maxDelayMs: 2_000 };
    expect([1, 2, 3, 4].map((retry) => delayOf(steep, retry))).toEqual([100, 300, 900, 2_000]);
  });

  it('custom asks the function of the application with retry, initial and maximum delay [GM-5.09]', () => {
    const seen: unknown[] = [];
    const custom = (...given: number[]) => {
      seen.push(given);
      return 4_321;
    };
    const policy: BackoffPolicy = { ...exact, strategy: 'CUSTOM' };
    expect(backoffDelayMs({ policy, retry: 7, random: 0, custom })).toEqual({ delayMs: 4_321, customFailed: false });
    expect(seen).toEqual([[7, 1_000, HOUR]]);
  });

  it.each([
    [
      'throws',
      () => {
        throw new Error('no');
      },
    ],
    ['gives NaN', () => Number.NaN],
    ['gives Infinity', () => Number.POSITIVE_INFINITY],
    ['gives a negative delay', () => -1],
    ['is missing', undefined],
  ])('a custom function that %s falls back to exponential and says so', (_, custom) => {
    const policy: BackoffPolicy = { ...exact, strategy: 'CUSTOM' };
    expect(backoffDelayMs({ policy, retry: 3, random: 0, custom })).toEqual({ delayMs: 4_000, customFailed: true });
  });
});

describe('jitter', () => {
  it('is optional: without it the delay does not depend on chance [GM-5.15]', () => {
    fc.assert(
      fc.property(anyRetry, anyRandom, (retry, random) => {
        expect(delayOf(exact, retry, random)).toBe(delayOf(exact, retry, 0));
      }),
    );
    expect(delayOf({ ...exact, jitter: true }, 1, 0)).not.toBe(delayOf({ ...exact, jitter: true }, 1, 0.9));
  });

  it('stays within ten percent either way and reaches both ends [GM-5.16]', () => {
    const policy: BackoffPolicy = { ...DEFAULT_BACKOFF, strategy: 'CONSTANT', initialDelayMs: 10_000 };
    expect(delayOf(policy, 1, 0)).toBe(9_000);
    expect(delayOf(policy, 1, 0.5)).toBe(10_000);
    expect(delayOf(policy, 1, 1 - Number.EPSILON)).toBe(11_000);
    fc.assert(
      fc.property(anyRetry, anyRandom, (retry, random) => {
        const base = delayOf(exact, retry);
        expect(Math.abs(delayOf(DEFAULT_BACKOFF, retry, random) - base)).toBeLessThanOrEqual(base * 0.1 + 0.5);
      }),
    );
  });
});

describe('any policy', () => {
  it('gives a whole, finite delay from zero to its maximum', () => {
    fc.assert(
      fc.property(anyPolicy, anyRetry, anyRandom, (policy, retry, random) => {
        const { delayMs } = backoffDelayMs({ policy, retry, random });
        expect(Number.isInteger(delayMs)).toBe(true);
        expect(delayMs).toBeGreaterThanOrEqual(0);
        expect(delayMs).toBeLessThanOrEqual(policy.maxDelayMs);
      }),
    );
  });

  it('never waits less for a later retry, jitter apart', () => {
    fc.assert(
      fc.property(anyPolicy, anyRetry, (policy, retry) => {
        const steady = { ...policy, jitter: false };
        expect(delayOf(steady, retry + 1)).toBeGreaterThanOrEqual(delayOf(steady, retry));
      }),
    );
  });

  it('waits at least as long as the failure asked for, even beyond the maximum [GM-8.21]', () => {
    const policy: BackoffPolicy = { ...exact, maxDelayMs: 5_000 };
    expect(backoffDelayMs({ policy, retry: 1, random: 0, retryAfterMs: 60_000 }).delayMs).toBe(60_000);
    expect(backoffDelayMs({ policy, retry: 3, random: 0, retryAfterMs: 10 }).delayMs).toBe(4_000);
  });
});

describe('the pauses of the program itself', () => {
  it('double with each failure up to their limit, with the jitter that each names', () => {
    const full = { firstMs: 50, maxMs: 300, jitter: 'full' } as const;
    expect([0, 1, 2, 3, 5_000].map((failures) => pauseMs(full, failures, 1))).toEqual([50, 100, 200, 300, 300]);
    expect(pauseMs(full, 1, 0)).toBe(0);
    expect([0, 1].map((random) => pauseMs({ ...full, jitter: 'half' }, 1, random))).toEqual([50, 100]);
    expect([0, 1].map((random) => pauseMs({ firstMs: 50, maxMs: 300 }, 1, random))).toEqual([100, 100]);
  });

  it('are computed in one place', () => {
    const sources = readSourceTree('src');
    const copies = [...sources].filter(([, text]) => /Math\.min\([^\n]*\* 2 \*\* /.test(text)).map(([path]) => path);
    expect(copies).toEqual(['src/client/transport.ts']); // The client imports nothing.
  });
});
