import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type BreakerPolicy, breakerAfter, type Health, isHopeless } from '../../src/core/breaker.ts';

const POLICY: BreakerPolicy = { threshold: 5, initialMs: 1_000, maxMs: 300_000 };
const DAY = 86_400_000;
const HEALTHY: Health = { failures: 0, failingSinceMs: null, nextAtMs: null };

const fail = (times: number, from: Health = HEALTHY): Health => {
  let health = from;
  for (let n = 1; n <= times; n++) health = breakerAfter(health, { isDelivered: false, nowMs: n * 1_000 }, POLICY);
  return health;
};

describe('the breaker of a target', () => {
  it('stays shut for a few failures, then puts the next delivery off, longer each time', () => {
    expect(fail(4)).toEqual({ failures: 4, failingSinceMs: 1_000, nextAtMs: null });
    expect(fail(5)).toEqual({ failures: 5, failingSinceMs: 1_000, nextAtMs: 5_000 + 16_000 });
    expect(fail(6).nextAtMs).toBe(6_000 + 32_000);
    expect(fail(60).nextAtMs).toBe(60_000 + 300_000);
  });

  it('forgets everything with one success', () => {
    expect(breakerAfter(fail(60), { isDelivered: true, nowMs: 99 }, POLICY)).toEqual(HEALTHY);
  });

  it('never waits longer than the longest wait, however many failures there were', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 1e9 }), (failures) => {
        const health = breakerAfter({ failures, failingSinceMs: 0, nextAtMs: null }, { isDelivered: false, nowMs: 7 }, POLICY);
        return health.nextAtMs === null ? health.failures < 5 : health.nextAtMs <= 7 + POLICY.maxMs && health.nextAtMs > 7;
      }),
    );
  });
});

describe('a target without hope', () => {
  const health = (failures: number, failingSinceMs: number | null): Health => ({
    failures,
    failingSinceMs,
    nextAtMs: null,
  });
  it.each([
    ['long and often', health(10, 0), 5 * DAY, true],
    ['often, not long', health(1_000, 1), 5 * DAY, false],
    ['long, not often', health(9, 0), 50 * DAY, false],
    ['never', HEALTHY, 50 * DAY, false],
  ])('%s', (_, given, nowMs, expected) => {
    expect(isHopeless(given, { nowMs, disableAfterMs: 5 * DAY })).toBe(expected);
  });
});
