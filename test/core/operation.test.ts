import { describe, expect, it } from 'vitest';
import { actionPlanOf } from '../../src/core/governance/dead-letter.ts';
import { paceOf, whyHalt } from '../../src/core/governance/operation.ts';
import { checkPatch } from '../../src/core/governance/payload-patch.ts';
import { maskPayload } from '../../src/core/mask-payload.ts';

describe('the rate of an operation', () => {
  it('is kept over any time, and a pause gives a twentieth of a second of credit at most', () => {
    const rate = 200;
    let paidUntilMs = 0;
    const sent: number[] = [];
    const wait = [5, 5, 7, 90, 3_000, 1, 1, 40, 1_000, 13];
    let nowMs = 1_000;
    for (let step = 0; step < 2_000; step++) {
      nowMs += wait[step % wait.length] as number;
      const pace = paceOf({ nowMs, paidUntilMs, rate, atMost: 25 });
      ({ paidUntilMs } = pace);
      for (let n = 0; n < pace.count; n++) sent.push(nowMs);
    }
    const most = Math.max(...sent.map((at, index) => sent.slice(index, index + 300).filter((other) => other < at + 1_000).length));
    expect(most).toBeLessThanOrEqual(rate * 1.05 + 1);
    expect(sent.length).toBeGreaterThan(5_000);
  });

  it('may be less than one a second', () => {
    expect(paceOf({ nowMs: 9_999, paidUntilMs: 0, rate: 0.1, atMost: 25 })).toEqual({ count: 0, paidUntilMs: 0 });
    expect(paceOf({ nowMs: 10_000, paidUntilMs: 0, rate: 0.1, atMost: 25 })).toEqual({ count: 1, paidUntilMs: 10_000 });
  });
});

describe('an operation halts', () => {
  const rule = { failureRate: 0.2, after: 20 };
  it.each([
    [{ succeeded: 15, failed: 4 }, false, false],
    [{ succeeded: 16, failed: 4 }, false, false],
    [{ succeeded: 15, failed: 5 }, false, true],
    [{ succeeded: 0, failed: 3 }, false, false],
    [{ succeeded: 0, failed: 3 }, true, true],
    [{ succeeded: 3, failed: 0 }, true, false],
    [{ succeeded: 0, failed: 0 }, true, false],
  ])('with %o, whole canary: %s: %s', (outcomes, isWholeCanary, halts) => {
    expect(whyHalt(rule, outcomes, isWholeCanary) !== null).toBe(halts);
    expect(whyHalt(null, outcomes, isWholeCanary)).toBeNull();
  });
});

describe('an action plan', () => {
  it.each([
    ['PROVIDER_DOWN', 'TEMPORARY', 'attempts_exhausted', 'replay'],
    ['EXECUTION_TIMEOUT', 'TIMEOUT', 'attempts_exhausted', 'replay'],
    ['WORKER_LOST', 'SYSTEM', 'attempts_exhausted', 'replay'],
    ['INVALID_ADDRESS', 'TEMPORARY', 'attempts_exhausted', 'fix_forward'],
    ['UNKNOWN_CUSTOMER', 'PERMANENT', 'poison', 'fix_forward'],
    ['LIFETIME_EXCEEDED', 'TIMEOUT', 'lifetime_exceeded', 'discard'],
    ['DEPENDENCY_DEAD_LETTER', 'SYSTEM', 'dependency_dead_letter', 'replay'],
  ] as const)('for %s (%s, %s) is to %s [AB-dead.10]', (code, category, reason, recommended) => {
    const plan = actionPlanOf({ code, category }, reason);
    expect(plan.recommended).toBe(recommended);
    expect(plan.steps.length).toBeGreaterThanOrEqual(2);
  });
});

describe('a patch from outside', () => {
  it.each([
    'text',
    [],
    [null],
    [{ op: 'add', path: '/a' }],
    [{ op: 'move', path: '/a' }],
    [{ op: 'add', path: 'a', value: 1 }],
    [{ op: 'add', path: '/~2', value: 1 }],
    [{ op: 'move', from: '/a~', path: '/b' }],
    [{ op: 'add', path: '/a/__proto__/b', value: 1 }],
    [{ op: 'add', path: '/a~1b/constructor', value: 1 }],
    [{ op: 'copy', from: '/prototype', path: '/a' }],
    [{ op: 'add', path: `/${'a/'.repeat(600)}`, value: 1 }],
  ])('is refused: %j', (patch) => {
    expect(checkPatch(patch)).toHaveLength(1);
  });

  it('is accepted if it is one of RFC 6902', () => {
    const steps = [
      { op: 'test', path: '/a', value: null },
      { op: 'remove', path: '/a' },
      { op: 'replace', path: '', value: {} },
      { op: 'move', from: '/b', path: '/c/-' },
    ];
    expect(checkPatch(steps)).toEqual([]);
  });
});

it('a payload is shown without secrets, and cut if it is large', () => {
  const payload = { apiKey: 'x', nested: [{ PASSWORD: { a: 1 } }], note: 'Bearer abcdefghijkl', __proto__x: 1 };
  expect(maskPayload(payload)).toEqual({ apiKey: '[masked]', nested: [{ PASSWORD: '[masked]' }], note: '[masked]', __proto__x: 1 });
  expect(maskPayload(new Uint8Array(3))).toBe('[3 bytes]');
  expect((maskPayload({ text: 'y'.repeat(20_000) }) as string).length).toBeLessThan(17_000);
});
