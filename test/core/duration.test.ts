import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { formatDuration, parseDuration } from '../../src/core/duration.ts';

describe('parseDuration', () => {
  it.each([
    ['PT5M', 300_000],
    ['PT0S', 0],
    ['PT0.25S', 250],
    ['PT0,25S', 250],
    ['PT1H30M', 5_400_000],
    ['P1D', 86_400_000],
    ['P1DT12H', 129_600_000],
    ['P2W', 1_209_600_000],
    ['PT1.5H', 5_400_000],
    ['250ms', 250],
    ['30s', 30_000],
    ['5m', 300_000],
    ['24h', 86_400_000],
    ['7d', 604_800_000],
    ['1.5s', 1_500],
    [' 30s ', 30_000],
    [0, 0],
    [300, 300_000],
  ])('reads %s as %i ms [GA-6.02]', (input, ms) => {
    expect(parseDuration(input)).toEqual({ ok: true, ms });
  });

  it('means the same by an ISO duration and by its integer of seconds [GA-6.03]', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 10_000_000 }), (seconds) => {
        expect(parseDuration(`PT${seconds}S`)).toEqual(parseDuration(seconds));
      }),
    );
  });

  it.each([
    ['-PT5M', 'negative'],
    ['PT-5M', 'negative'],
    ['-5s', 'negative'],
    [-1, 'negative'],
    ['P1M', 'months and years'],
    ['P1Y', 'months and years'],
    ['P1Y2DT3H', 'months and years'],
    ['300', 'needs a unit: write 300s'],
    [1.5, 'whole number of seconds'],
    [Number.NaN, 'whole number of seconds'],
    [Number.POSITIVE_INFINITY, 'whole number of seconds'],
    ['PT1.5H30M', 'only the smallest part'],
    ['99999999999999d', 'too long'],
    ['P', 'write a duration such as PT5M'],
    ['PT', 'write a duration such as PT5M'],
    ['P1DT', 'write a duration such as PT5M'],
    ['', 'write a duration such as PT5M'],
    ['soon', 'write a duration such as PT5M'],
    ['5 minutes', 'write a duration such as PT5M'],
    ['PT5', 'write a duration such as PT5M'],
  ])('refuses %s and says why', (input, why) => {
    const parsed = parseDuration(input);
    expect(parsed).toEqual({ ok: false, message: expect.stringContaining(why) });
  });

  it('refuses what is neither a string nor a number', () => {
    for (const input of [null, undefined, {}, [], true]) expect(parseDuration(input as never).ok).toBe(false);
  });
});

describe('formatDuration', () => {
  it.each([
    [0, 'PT0S'],
    [250, 'PT0.25S'],
    [0.25, 'PT0.00025S'],
    [1_000, 'PT1S'],
    [300_000, 'PT5M'],
    [5_400_000, 'PT1H30M'],
    [604_800_000, 'P7D'],
    [86_401_001, 'P1DT1.001S'],
  ])('prints %d ms as %s', (ms, text) => {
    expect(formatDuration(ms)).toBe(text);
  });

  it('is read back as the same number of milliseconds', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 100_000_000_000 }), (ms) => {
        expect(parseDuration(formatDuration(ms))).toEqual({ ok: true, ms });
      }),
    );
  });

  it('has no form for what is no duration', () => {
    for (const ms of [-1, Number.NaN, Number.POSITIVE_INFINITY]) expect(() => formatDuration(ms)).toThrow(RangeError);
  });
});
