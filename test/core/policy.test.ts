import { describe, expect, it } from 'vitest';
import { type PolicyLayer, PROFILES, type ResolveParams, resolvePolicy } from '../../src/core/policy.ts';

const MINUTE = 60_000;
const DAY = 86_400_000;
const profile = PROFILES.gopherqueue;

const resolve = (layers: Omit<ResolveParams, 'profile'>) => {
  const resolved = resolvePolicy({ ...layers, profile: 'gopherqueue' });
  if (!resolved.ok) throw new Error(resolved.issues.map(({ message }) => message).join('; '));
  return resolved.policy;
};
const fields = (submission: PolicyLayer) => {
  const resolved = resolvePolicy({ submission, profile: 'gopherqueue' });
  return resolved.ok ? [] : resolved.issues.map(({ field }) => field);
};

describe('the gopherqueue profile', () => {
  it('allows three attempts [GM-5.01]', () => {
    expect(profile.maxAttempts).toBe(3);
  });

  it('runs a handler for at most 30 minutes [GM-4.01] [GM-4.11]', () => {
    expect(profile.timeoutMs).toBe(30 * MINUTE);
  });

  it('lets a worker be silent for 5 minutes [GM-4.02] [GM-4.12]', () => {
    expect(profile.leaseMs).toBe(5 * MINUTE);
  });

  it('gives a job 7 days to end [GM-4.04] [GM-4.13]', () => {
    expect(profile.lifetimeMs).toBe(7 * DAY);
  });

  it('has no submission timeout among its timeouts [GM-4.14]', () => {
    expect(Object.keys(profile).filter((member) => /submission/i.test(member))).toEqual([]);
  });

  it('holds an idempotency key for 24 hours [GM-1.16]', () => {
    expect(profile.keyWindowMs).toBe(DAY);
  });

  it('retries by itself, also timeouts, crashes and orphans, and keeps ended jobs for 30 days', () => {
    expect(profile).toMatchObject({ autoRetry: true, retryOnTimeout: true, retryOnSystem: true, onOrphan: 'retry' });
    expect(profile).toMatchObject({ cancelGraceMs: 30_000, retentionMs: 30 * DAY });
    expect(profile.backoff.jitter).toBe(true);
  });
});

describe('resolvePolicy', () => {
  it('is the profile itself when no layer says anything', () => {
    expect(resolve({})).toBe(profile);
    expect(resolve({ submission: {}, registration: { timeoutMs: undefined } })).toEqual(profile);
  });

  it('makes one policy of a registration and a profile, however many jobs ask for it', () => {
    const registration = { maxAttempts: 6, backoff: { jitter: false } };
    expect(resolve({ registration })).toBe(resolve({ registration }));
    expect(resolve({ registration: { maxAttempts: undefined } })).toBe(profile);
    const altered = { ...profile, leaseMs: 60_000 };
    expect(resolvePolicy({ registration, profile: altered })).toMatchObject({ policy: { leaseMs: 60_000 } });
  });

  it('takes each value from the first of submission, registration and profile [GA-5.03] [GA-5.04]', () => {
    const submission = { maxAttempts: 7 };
    const registration = { maxAttempts: 6, timeoutMs: 2_000 };
    expect(resolve({ submission, registration })).toMatchObject({
      maxAttempts: 7,
      timeoutMs: 2_000,
      leaseMs: profile.leaseMs,
    });
    expect(resolve({ registration })).toMatchObject({ maxAttempts: 6, timeoutMs: 2_000 });
  });

  it('merges backoff member by member', () => {
    const policy = resolve({
      submission: { backoff: { initialDelayMs: 50 } },
      registration: { backoff: { strategy: 'LINEAR', initialDelayMs: 10 } },
    });
    expect(policy.backoff).toEqual({ ...profile.backoff, strategy: 'LINEAR', initialDelayMs: 50 });
  });

  it('changes no layer and no profile, and ignores members a policy does not have', () => {
    const registration = { maxAttempts: 9, hasCustomBackoff: true };
    expect(resolve({ registration })).not.toHaveProperty('hasCustomBackoff');
    expect(registration).toEqual({ maxAttempts: 9, hasCustomBackoff: true });
    expect(Object.isFrozen(profile)).toBe(true);
  });

  it('lets a handler or a submission shorten the timeout [GM-4.09]', () => {
    expect(resolve({ registration: { timeoutMs: 1 } }).timeoutMs).toBe(1);
    expect(resolve({ registration: { timeoutMs: 30 * MINUTE } }).timeoutMs).toBe(30 * MINUTE);
  });

  it('refuses a timeout above that of the profile, from whichever layer [GM-4.10]', () => {
    const timeoutMs = 30 * MINUTE + 1;
    for (const layer of ['submission', 'registration']) {
      expect(resolvePolicy({ [layer]: { timeoutMs }, profile: 'gopherqueue' })).toEqual({
        ok: false,
        issues: [{ field: 'timeout', code: 'OUT_OF_RANGE', message: expect.stringContaining('at most 1800 seconds') }],
      });
    }
  });

  it('measures against a profile that the configuration altered', () => {
    const longer = { ...profile, timeoutMs: 60 * MINUTE };
    expect(resolvePolicy({ submission: { timeoutMs: 45 * MINUTE }, profile: longer }).ok).toBe(true);
  });

  it('allows 1 to 100 attempts [GA-1.09]', () => {
    expect(fields({ maxAttempts: 1 })).toEqual([]);
    expect(fields({ maxAttempts: 100 })).toEqual([]);
    for (const maxAttempts of [0, 101, 1.5, -1, Number.NaN, '3' as never]) {
      expect(fields({ maxAttempts })).toEqual(['maxAttempts']);
    }
  });

  it('names every value out of range at once', () => {
    const backoff = { strategy: 'FIBONACCI' as never, initialDelayMs: -1, maxDelayMs: 0.5, multiplier: 0 };
    const layer = { maxAttempts: 0, timeoutMs: 0, leaseMs: 10, lifetimeMs: 0, cancelGraceMs: -1, keyWindowMs: 0 };
    expect(fields({ ...layer, retentionMs: -1, backoff })).toEqual([
      'maxAttempts',
      'timeout',
      'lease',
      'lifetime',
      'cancelGrace',
      'keyWindow',
      'retention',
      'backoff.strategy',
      'backoff.initialDelay',
      'backoff.maxDelay',
      'backoff.multiplier',
    ]);
    expect(fields({ backoff: { initialDelayMs: 2_000, maxDelayMs: 1_000 } })).toEqual(['backoff.maxDelay']);
  });
});
