import { describe, expect, it } from 'vitest';
import { CATEGORY_NAMES, type CategoryName } from '../../../src/core/governance/categories.ts';
import { categoriesWith, governanceOf } from '../../../src/core/governance/category.ts';
import type { Governing } from '../../../src/core/governance/govern.ts';
import { PROFILES } from '../../../src/core/policy.ts';
import { DEFAULT_LIMITS, type NormalizedSubmission, normalizeSubmission, type Submission } from '../../../src/core/submission.ts';
import type { RegistrationPolicy } from '../../../src/core/submission-policy.ts';

const ORG = '4b9f0f8e-4b7a-4d5e-8f00-1234567890ab';
const PROJECT = '7c9f0f8e-4b7a-4d5e-8f00-1234567890ab';
const NOW = Date.parse('2024-01-15T10:30:20Z');
const MINUTE = 60_000;
const DAY = 86_400_000;

const governance = governanceOf(categoriesWith(), PROFILES.gopherqueue);
const MAIL = { recipient: 'ada@example.com', template: 'welcome' };

type More = { nowMs?: number; registration?: RegistrationPolicy; governing?: Partial<Governing> };

function normalize(submission: object, { nowMs = NOW, registration, governing = {} }: More = {}): NormalizedSubmission {
  return normalizeSubmission({ type: 'work', payload: MAIL, ...submission } as Submission, {
    nowMs,
    registration,
    limits: DEFAULT_LIMITS,
    profile: PROFILES.gopherqueue,
    governing: { governance, orgId: ORG, knowsType: true, ...governing },
  });
}

function jobOf(submission: object, more?: More) {
  const normalized = normalize(submission, more);
  if (!normalized.ok) throw new Error(JSON.stringify(normalized.issues));
  return normalized.job;
}

function issuesOf(submission: object, more?: More): string[] {
  const normalized = normalize(submission, more);
  return normalized.ok ? [] : normalized.issues.map(({ field, code }) => `${field} ${code}`);
}

const keyOf = (submission: object, more?: More): string =>
  jobOf({ category: 'notification', ...submission }, more).idempotencyKey as string;

describe('a category', () => {
  const of = (category: CategoryName) => {
    const { queue, policy } = jobOf({ category });
    const { initialDelayMs, maxDelayMs, strategy, jitter, multiplier } = policy.backoff;
    expect({ strategy, jitter, multiplier }).toEqual({ strategy: 'EXPONENTIAL', jitter: true, multiplier: 2 });
    return [queue, policy.maxAttempts, initialDelayMs, maxDelayMs / MINUTE, policy.keyWindowMs / DAY];
  };

  it('decides the queue, the attempts, the delays and the key window [AB-queue.10] [AB-queue.11] [AB-queue.12] [AB-queue.13] [AB-retry.01] [AB-retry.02] [AB-retry.03] [AB-retry.04] [AB-retry.05] [AB-retry.06] [AB-retry.07] [AB-retry.08] [AB-retry.09] [AB-retry.10] [AB-retry.11] [AB-retry.12] [AB-idem.14] [AB-idem.15] [AB-idem.16] [AB-idem.17] [AB-idem.18]', () => {
    expect(of('notification')).toEqual(['q:notifications', 10, 5_000, 30, 7]);
    expect(of('audit_enrichment')).toEqual(['q:default', 5, 5_000, 5, 7]);
    expect(of('planning')).toEqual(['q:planning', 3, 5_000, 2, 30]);
    expect(of('import_export')).toEqual(['q:exports', 5, 5_000, 10, 30]);
    expect(of('maintenance')).toEqual(['q:maintenance', 5, 5_000, 5, 7]);
  });

  it('gives way to the handler, and the handler to the submission [AB-accept.03]', () => {
    const registration: RegistrationPolicy = { maxAttempts: 7, backoff: { initialDelayMs: 1_000 } };
    const { policy } = jobOf({ category: 'planning' }, { registration });
    expect([policy.maxAttempts, policy.backoff.initialDelayMs, policy.backoff.maxDelayMs]).toEqual([7, 1_000, 2 * MINUTE]);
    const own = { maxAttempts: 2, backoff: { maxDelay: '1m' } };
    const { policy: asked } = jobOf({ category: 'planning', ...own }, { registration });
    expect([asked.maxAttempts, asked.backoff.initialDelayMs, asked.backoff.maxDelayMs]).toEqual([2, 1_000, MINUTE]);
    expect(jobOf({}, { registration: undefined }).policy.maxAttempts).toBe(3);
  });

  it('waits as long as the handler says, even if that is more than its longest delay', () => {
    const registration: RegistrationPolicy = { backoff: { initialDelayMs: 10 * MINUTE } };
    const { policy } = jobOf({ category: 'planning' }, { registration });
    expect([policy.backoff.initialDelayMs, policy.backoff.maxDelayMs]).toEqual([10 * MINUTE, 10 * MINUTE]);
    expect(jobOf({ category: 'planning' }, { registration }).policy).toBe(policy);
  });

  it('keeps jitter on, whoever turns it off [AB-retry.02]', () => {
    const registration: RegistrationPolicy = { backoff: { jitter: false } };
    expect(jobOf({ category: 'planning' }, { registration }).policy.backoff.jitter).toBe(true);
    expect(jobOf({ category: 'planning', backoff: { jitter: false } }).policy.backoff.jitter).toBe(true);
    expect(jobOf({ backoff: { jitter: false } }).policy.backoff.jitter).toBe(false);
  });

  it('shares one policy object between jobs, so that the ledger knows it', () => {
    const registration: RegistrationPolicy = { maxAttempts: 7, backoff: { jitter: false } };
    for (const category of CATEGORY_NAMES)
      expect(jobOf({ category }, { registration }).policy).toBe(jobOf({ category }, { registration }).policy);
  });

  it('leaves the queue to a submission that names one, but not the queue of dead letters [AB-queue.09]', () => {
    expect(jobOf({ category: 'planning', queue: 'q:critical' })).toMatchObject({ queue: 'q:critical', priority: 0 });
    expect(issuesOf({ category: 'planning', queue: 'q:deadletter' })).toEqual(['queue INVALID_VALUE']);
  });

  it('needs a type that a worker has registered', () => {
    expect(issuesOf({ category: 'planning' }, { governing: { knowsType: false } })).toEqual(['type UNKNOWN_TYPE']);
    expect(issuesOf({}, { governing: { knowsType: false } })).toEqual([]);
  });

  it.each(CATEGORY_NAMES)('%s needs an object as its payload [AB-contract.11]', (category) => {
    expect(issuesOf({ category, payload: new Uint8Array([1]) })).toEqual(['payload INVALID_TYPE']);
    expect(issuesOf({ category, payload: { $bytes: 'AA==' } })).toEqual(['payload INVALID_TYPE']);
    expect(issuesOf({ category, payload: [] })).toEqual(['payload INVALID_TYPE']);
  });

  it('notification needs a recipient and a template [AB-retry.13]', () => {
    const missing = ['payload.recipient REQUIRED', 'payload.template REQUIRED'];
    for (const payload of [{}, { recipient: null, template: '' }, JSON.parse('{"__proto__": {"recipient": "a", "template": "b"}}')])
      expect(issuesOf({ category: 'notification', payload })).toEqual(missing);
    expect(issuesOf({ category: 'maintenance', payload: {} })).toEqual([]);
  });
});

describe('the time of a governed job', () => {
  const later = new Date(NOW + 5 * MINUTE);

  it('may be later for maintenance and notifications only [AB-sched.01]', () => {
    for (const category of ['maintenance', 'notification']) expect(issuesOf({ category, scheduledAt: later })).toEqual([]);
    for (const category of ['planning', 'import_export', 'audit_enrichment']) {
      expect(issuesOf({ category, scheduledAt: later })).toEqual(['scheduledAt SCHEDULING_NOT_ALLOWED']);
      expect(issuesOf({ category, delay: '5m' })).toEqual(['delay SCHEDULING_NOT_ALLOWED']);
      expect(issuesOf({ category, debounce: { key: 'k', delay: '5m' } })).toEqual(['debounce SCHEDULING_NOT_ALLOWED']);
      expect(issuesOf({ category, delay: 0 })).toEqual([]);
    }
  });

  it('may be at most 60 seconds in the past [AB-sched.03]', () => {
    expect(issuesOf({ category: 'maintenance', scheduledAt: new Date(NOW - MINUTE) })).toEqual([]);
    expect(issuesOf({ category: 'maintenance', scheduledAt: new Date(NOW - MINUTE - 1) })).toEqual(['scheduledAt OUT_OF_RANGE']);
    expect(issuesOf({ scheduledAt: new Date(NOW - 2 * MINUTE) })).toEqual([]);
  });
});

describe('a derived key', () => {
  it('names the type, the org, the project and a hash of the inputs [AB-idem.05] [AB-contract.09]', () => {
    const { idempotencyKey, fingerprint, hasDerivedKey } = jobOf({ category: 'planning', payload: { a: 1 } });
    expect(idempotencyKey).toMatch(new RegExp(`^work:${ORG}:[0-9a-f]{64}$`));
    expect([fingerprint, hasDerivedKey]).toEqual([expect.any(String), true]);
    const inProject = jobOf({ category: 'planning', payload: { a: 1 }, projectId: PROJECT }).idempotencyKey;
    expect(inProject).toBe(idempotencyKey?.replace(`${ORG}:`, `${ORG}:${PROJECT}:`));
    const longest = jobOf({ category: 'planning', type: 'é'.repeat(100), projectId: PROJECT }).idempotencyKey as string;
    expect([...longest].length).toBeLessThanOrEqual(256);
  });

  it('is not made for a job with a key, or without a category [AB-idem.02]', () => {
    expect(jobOf({ category: 'planning', idempotencyKey: 'mine' })).toMatchObject({ idempotencyKey: 'mine' });
    expect(jobOf({ category: 'planning', idempotencyKey: 'mine' }).hasDerivedKey).toBeUndefined();
    expect(jobOf({}).idempotencyKey).toBeNull();
  });

  it('does not depend on tags, priority or other members [AB-sched.04]', () => {
    const given = { category: 'maintenance', payload: { a: 1 } };
    const first = jobOf(given);
    for (const more of [{ tags: { a: 'b' } }, { priority: 'HIGH' }, { delay: '5m' }, { correlationId: 'c' }, { maxAttempts: 2 }])
      expect(jobOf({ ...given, ...more })).toMatchObject({ idempotencyKey: first.idempotencyKey, fingerprint: first.fingerprint });
  });

  it('that a caller repeats is the derived one, and any other is the key of the caller', () => {
    const { idempotencyKey, fingerprint } = jobOf({ category: 'planning', payload: { a: 1 } });
    expect(jobOf({ category: 'planning', payload: { a: 1 }, idempotencyKey })).toMatchObject({ fingerprint, hasDerivedKey: true });
    expect(jobOf({ category: 'planning', payload: { a: 2 }, idempotencyKey }).hasDerivedKey).toBeUndefined();
  });

  it('of a notification changes with each of its five parts, and with nothing else [AB-cat.03] [AB-cat.04]', () => {
    const first = keyOf({ payload: { ...MAIL, name: 'Ada' } });
    expect(keyOf({ payload: { name: 'Ada', template: 'welcome', recipient: 'ada@example.com' }, tags: { a: 'b' } })).toBe(first);
    expect(keyOf({ payload: { ...MAIL, name: 'Ada' }, scheduledAt: new Date(NOW) })).toBe(first);
    const other = '9b9f0f8e-4b7a-4d5e-8f00-1234567890ab';
    const hashes = [
      first,
      keyOf({ payload: { ...MAIL, name: 'Ada' } }, { governing: { orgId: other } }),
      keyOf({ payload: { ...MAIL, name: 'Ada', recipient: 'bob@example.com' } }),
      keyOf({ payload: { ...MAIL, name: 'Ada', template: 'bye' } }),
      keyOf({ payload: { ...MAIL, name: 'Bob' } }),
      keyOf({ payload: { ...MAIL, name: 'Ada' } }, { nowMs: NOW + MINUTE }),
    ].map((key) => key.slice(key.lastIndexOf(':')));
    expect(new Set(hashes).size).toBe(6);
  });

  it('of a notification has one bucket a minute, of its start [AB-cat.03]', () => {
    const minute = Math.floor(NOW / MINUTE) * MINUTE;
    const at = (ms: number) => keyOf({ scheduledAt: new Date(minute + 5 * MINUTE + ms) });
    expect(at(59_999)).toBe(at(0));
    expect(at(MINUTE)).not.toBe(at(0));
    expect(keyOf({ delay: '5m' }, { nowMs: minute })).toBe(at(0));
    expect(keyOf({}, { nowMs: minute })).toBe(keyOf({}, { nowMs: minute + 59_999 }));
  });

  it('of two scheduled runs differ', () => {
    const run = (name: string) => jobOf({ category: 'maintenance' }, { governing: { run: name } }).idempotencyKey;
    expect(run('nightly 1')).not.toBe(run('nightly 2'));
    expect(run('nightly 1')).toBe(run('nightly 1'));
  });
});

describe('a large payload', () => {
  const large = (more: object) => ({ ...MAIL, items: Array.from({ length: 20_000 }, (_, n) => ({ n })), ...more });

  it('is inspected after the call, with the same result [AB-sec.05]', async () => {
    const normalized = normalize({ category: 'planning', payload: large({}) });
    if (!normalized.ok || normalized.complete === undefined) throw new Error('it is not inspected later');
    const whole = await normalized.complete();
    if (!whole.ok) throw new Error(JSON.stringify(whole.issues));
    expect(whole.job).toMatchObject({ hasDerivedKey: true, idempotencyKey: expect.stringMatching(/^work:.*:[0-9a-f]{64}$/) });
    const refused = normalize({ category: 'planning', payload: large({ deep: [{ 'Api-Key': 1 }] }) });
    expect(await (refused.ok ? refused.complete?.() : undefined)).toMatchObject({
      ok: false,
      issues: [{ field: 'payload.deep[0].Api-Key', code: 'SECRET_IN_PAYLOAD' }],
    });
  });
});
