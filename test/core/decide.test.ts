import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type DecideParams, decide, type Outcome } from '../../src/core/decide.ts';
import { classify, FAILURE_CATEGORIES, type Failure } from '../../src/core/failure.ts';
import { type Policy, PROFILES } from '../../src/core/policy.ts';
import { TRANSITIONS } from '../../src/core/transitions.ts';

const NOW = 1_700_000_000_000;
const failed = (category: Failure['category'], more: Partial<Failure> = {}): Outcome => ({
  kind: 'failed',
  failure: { category, code: 'CODE', message: 'message', ...more },
});
const job = { attemptsStarted: 1, maxAttempts: 3, lifetimeDeadlineMs: NOW + 86_400_000 };
const policy: Policy = PROFILES.gopherqueue;
const run = (outcome: Outcome, more: Partial<DecideParams> = {}) => decide({ outcome, job, policy, random: 0.5, nowMs: NOW, ...more });
const edge = (outcome: Outcome, more: Partial<DecideParams> = {}) => {
  const { transition } = run(outcome, more);
  return `${transition.to} ${transition.reason}`;
};
const lastAttempt = { job: { ...job, attemptsStarted: 3 } };

describe('an attempt that ended by itself', () => {
  it('completes the job on success [GM-2.15]', () => {
    expect(run({ kind: 'succeeded' })).toEqual({
      transition: { from: 'running', to: 'completed', reason: 'succeeded' },
    });
  });

  it('fails the job on a permanent failure, with attempts left or not [GM-2.16] [GM-8.03]', () => {
    expect(edge(failed('PERMANENT'))).toBe('failed permanent_failure');
    expect(edge(failed('PERMANENT'), lastAttempt)).toBe('failed permanent_failure');
  });

  it('retries a temporary failure after its backoff while attempts remain [GM-2.17] [GM-8.02]', () => {
    expect(run(failed('TEMPORARY'))).toMatchObject({
      transition: { from: 'running', to: 'retrying', reason: 'temporary_failure' },
      delayMs: 1_000,
      failure: { code: 'CODE' },
    });
    expect(run(failed('TEMPORARY'), { job: { ...job, attemptsStarted: 2 } }).delayMs).toBe(2_000);
  });

  it('dead-letters a temporary failure of the last attempt [GM-2.18]', () => {
    expect(edge(failed('TEMPORARY'), lastAttempt)).toBe('dead_letter attempts_exhausted');
  });

  it('counts the first run among the attempts: three allow two retries, one allows none [GM-5.01]', () => {
    const ends = [1, 2, 3].map((attemptsStarted) => run(failed('TEMPORARY'), { job: { ...job, attemptsStarted } }));
    expect(ends.map(({ transition }) => transition.to)).toEqual(['retrying', 'retrying', 'dead_letter']);
    expect(edge(failed('TEMPORARY'), { job: { ...job, maxAttempts: 1 } })).toBe('dead_letter attempts_exhausted');
  });

  it('cancels the job when it stopped because it was cancelled, and never retries that [GM-8.05]', () => {
    expect(edge({ kind: 'cancelled' })).toBe('cancelled cancelled');
    expect(edge(failed('CANCELLED'))).toBe('cancelled cancelled');
  });
});

describe('a governed job that fails permanently', () => {
  const again = (permanentFailures: number, poisonAfter?: number) =>
    edge(failed('PERMANENT'), { job: { ...job, permanentFailures }, policy: { ...policy, poisonAfter } });

  it('is poison from the given failure on, and never on the first [AB-dead.02]', () => {
    expect([0, 1, 2, 3].map((count) => again(count, 2))).toEqual(['failed permanent_failure', ...Array(3).fill('dead_letter poison')]);
    expect([again(1, 3), again(2, 3), again(0, 1)]).toEqual(['failed permanent_failure', 'dead_letter poison', 'failed permanent_failure']);
    expect(again(5)).toBe('failed permanent_failure');
  });
});

describe('an attempt that does not count', () => {
  const uncounted = failed('TEMPORARY', { countsAsAttempt: false });

  it('may be the last one, and the next starts after the wait that was asked for', () => {
    const postponed = run({ kind: 'postponed', delayMs: 60_000 }, lastAttempt);
    expect(postponed).toEqual({
      transition: { from: 'running', to: 'retrying', reason: 'postponed' },
      delayMs: 60_000,
      refundsAttempt: true,
    });
    expect(run(uncounted, lastAttempt)).toMatchObject({ transition: { reason: 'temporary_failure' }, refundsAttempt: true });
  });

  it('is followed by a wait that grows with their number, so that no loop of them is endless', () => {
    const none = { ...policy, backoff: { ...policy.backoff, initialDelayMs: 0 } };
    const waits = (attemptsStarted: number) => {
      const more = { job: { ...job, attemptsStarted, maxAttempts: attemptsStarted + 2 }, policy: none };
      return [run({ kind: 'postponed', delayMs: 0 }, more).delayMs, run(uncounted, more).delayMs];
    };
    expect(waits(1)).toEqual([1_001, 1_001]);
    expect(waits(1_000)).toEqual([2_717, 2_717]);
  });

  it('does not lengthen the backoff of a later failure', () => {
    const later = { job: { ...job, attemptsStarted: 12, maxAttempts: 13 } };
    expect(run(failed('TEMPORARY'), later).delayMs).toBe(2_000);
  });

  it('ends the job if the wait is longer than its lifetime, and says so', () => {
    const { transition, failure } = run({ kind: 'postponed', delayMs: 2 * 86_400_000 });
    expect(transition).toMatchObject({ to: 'dead_letter', reason: 'lifetime_exceeded' });
    expect(failure).toMatchObject({
      category: 'TIMEOUT',
      code: 'LIFETIME_EXCEEDED',
      message: expect.stringContaining('postponed the job by P2D'),
    });
  });
});

describe('timeouts and system failures', () => {
  it('retry like a temporary failure [GM-4.06] [GM-5.12]', () => {
    const timeout: Outcome = { kind: 'failed', failure: classify(new Error('slow'), 'timeout') };
    expect(edge(timeout)).toBe('retrying timed_out');
    expect(run(timeout).delayMs).toBe(run(failed('TEMPORARY')).delayMs);
    expect(edge(timeout, lastAttempt)).toBe('dead_letter attempts_exhausted');
    expect(edge(failed('SYSTEM'))).toBe('retrying system_failure');
  });

  it('are retried only if the policy says so [GM-8.04] [GM-8.06]', () => {
    expect(edge(failed('TIMEOUT'), { policy: { ...policy, retryOnTimeout: false } })).toBe('failed timed_out');
    expect(edge(failed('SYSTEM'), { policy: { ...policy, retryOnTimeout: false } })).toBe('retrying system_failure');
    expect(edge(failed('SYSTEM'), { policy: { ...policy, retryOnSystem: false } })).toBe('failed system_failure');
    expect(edge(failed('TEMPORARY'), { policy: { ...policy, retryOnSystem: false } })).toBe('retrying temporary_failure');
  });
});

describe('a profile that does not retry by itself', () => {
  it.each([
    ['TEMPORARY', 'failed temporary_failure'],
    ['TIMEOUT', 'failed timed_out'],
    ['SYSTEM', 'failed system_failure'],
    ['PERMANENT', 'failed permanent_failure'],
  ] as const)('rests a %s failure in failed', (category, expected) => {
    expect(edge(failed(category), { policy: { ...policy, autoRetry: false } })).toBe(expected);
    expect(edge(failed(category), { policy: { ...policy, autoRetry: false }, ...lastAttempt })).toBe(expected);
  });
});

describe('an attempt taken from its worker', () => {
  it('is tried again at once when the worker was lost, while attempts remain', () => {
    expect(run({ kind: 'worker_lost' })).toMatchObject({
      transition: { to: 'retrying', reason: 'worker_lost' },
      delayMs: 0,
      failure: { category: 'SYSTEM', code: 'WORKER_LOST' },
    });
    expect(edge({ kind: 'worker_lost' }, lastAttempt)).toBe('dead_letter attempts_exhausted');
    expect(edge({ kind: 'worker_lost' }, { policy: { ...policy, onOrphan: 'fail' } })).toBe('failed worker_lost');
  });

  it('is given back at once by a clean shutdown, also on its last attempt', () => {
    expect(run({ kind: 'released' })).toMatchObject({ transition: { to: 'retrying', reason: 'released' }, delayMs: 0 });
    expect(edge({ kind: 'released' }, lastAttempt)).toBe('retrying released');
  });
});

describe('the lifetime of a job', () => {
  it('dead-letters a running job when it is over', () => {
    expect(run({ kind: 'lifetime_exceeded' })).toMatchObject({
      transition: { to: 'dead_letter', reason: 'lifetime_exceeded' },
      failure: { category: 'TIMEOUT', code: 'LIFETIME_EXCEEDED' },
    });
    const aborted: Outcome = { kind: 'failed', failure: classify(new Error('x'), 'lifetime') };
    expect(edge(aborted)).toBe('dead_letter lifetime_exceeded');
    expect(edge(aborted, { policy: { ...policy, autoRetry: false } })).toBe('dead_letter lifetime_exceeded');
  });

  it('dead-letters at once when the next backoff would end after it', () => {
    const short = (lifetimeDeadlineMs: number | null) => ({ job: { ...job, lifetimeDeadlineMs } });
    expect(edge(failed('TEMPORARY'), short(NOW + 999))).toBe('dead_letter lifetime_exceeded');
    expect(edge(failed('TEMPORARY'), short(NOW + 1_000))).toBe('retrying temporary_failure');
    expect(edge(failed('TEMPORARY', { retryAfterMs: 10 ** 12 }), short(NOW + 1_000))).toBe('dead_letter lifetime_exceeded');
    expect(edge(failed('TEMPORARY', { retryAfterMs: 10 ** 12 }), short(null))).toBe('retrying temporary_failure');
    expect(edge({ kind: 'worker_lost' }, short(NOW - 1))).toBe('dead_letter lifetime_exceeded');
  });
});

describe('a custom backoff', () => {
  const custom: Policy = { ...policy, backoff: { ...policy.backoff, strategy: 'CUSTOM', jitter: false } };

  it('is asked for the delay, and its fault is reported', () => {
    expect(run(failed('TEMPORARY'), { policy: custom, custom: (retry) => retry * 77 }).delayMs).toBe(77);
    expect(run(failed('TEMPORARY'), { policy: custom, custom: () => Number.NaN })).toMatchObject({
      delayMs: 1_000,
      customFailed: true,
    });
  });
});

describe('every outcome', () => {
  const failure = fc.record({
    category: fc.constantFrom(...FAILURE_CATEGORIES),
    code: fc.constantFrom('CODE', 'LIFETIME_EXCEEDED'),
    message: fc.string(),
    retryAfterMs: fc.option(fc.nat(10 ** 9), { nil: undefined }),
    countsAsAttempt: fc.constantFrom<false | undefined>(false, undefined),
  });
  const outcome: fc.Arbitrary<Outcome> = fc.oneof(
    fc.constantFrom<Outcome>(
      ...([{ kind: 'succeeded' }, { kind: 'cancelled' }, { kind: 'worker_lost' }] as const),
      ...([{ kind: 'released' }, { kind: 'lifetime_exceeded' }] as const),
    ),
    fc.nat(10 ** 9).map((delayMs) => ({ kind: 'postponed' as const, delayMs })),
    failure.map((value) => ({ kind: 'failed' as const, failure: value })),
  );
  const params = fc.record({
    outcome,
    job: fc.record({
      attemptsStarted: fc.integer({ min: 1, max: 101 }),
      maxAttempts: fc.integer({ min: 1, max: 100 }),
      lifetimeDeadlineMs: fc.option(fc.integer({ min: NOW - 10, max: NOW + 10 ** 7 })),
    }),
    policy: fc
      .record({
        autoRetry: fc.boolean(),
        retryOnTimeout: fc.boolean(),
        retryOnSystem: fc.boolean(),
        onOrphan: fc.constantFrom('retry' as const, 'fail' as const),
      })
      .map((flags): Policy => ({ ...policy, ...flags })),
    random: fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
    nowMs: fc.constant(NOW),
  });

  it('gives one legal transition out of running, a delay exactly when it retries, a failure unless it succeeded', () => {
    fc.assert(
      fc.property(params, (given) => {
        const { transition, delayMs, failure } = decide(given);
        expect(transition.from).toBe('running');
        expect(TRANSITIONS.running[transition.to]).toContain(transition.reason);
        expect(delayMs !== undefined).toBe(transition.to === 'retrying');
        expect(failure === undefined).toBe(given.outcome.kind === 'succeeded' || transition.reason === 'postponed');
      }),
    );
  });

  it('never retries beyond the attempts or the lifetime', () => {
    fc.assert(
      fc.property(params, (given) => {
        const { transition, delayMs = 0, refundsAttempt } = decide(given);
        if (transition.to !== 'retrying') return;
        if (refundsAttempt === undefined) expect(given.job.attemptsStarted).toBeLessThan(given.job.maxAttempts);
        else if (given.outcome.kind !== 'released') expect(delayMs).toBeGreaterThanOrEqual(1_000);
        expect(given.nowMs + delayMs).toBeLessThanOrEqual(given.job.lifetimeDeadlineMs ?? Number.POSITIVE_INFINITY);
      }),
    );
  });
});
