import { describe, expect, it } from 'vitest';
import { PROFILES } from '../../src/core/policy.ts';
import { normalizeSubmission } from '../../src/core/submission.ts';
import { accepted, issues, NOW, normalize, PARAMS } from './submission-fixture.ts';

const DAY = 86_400_000;
const ID = '4b9f0f8e-4b7a-4d5e-8f00-1234567890ab';

describe('a plain submission', () => {
  it('needs only type and payload; everything else has a default [GM-1.08] [GM-3.04]', () => {
    expect(accepted({})).toEqual({
      type: 'email.send',
      queue: 'q:default',
      priority: 2,
      payload: { kind: 'json', text: '{"to":"ann"}' },
      runAfterMs: null,
      runAt: null,
      policy: PROFILES.gopherqueue,
      idempotencyKey: null,
      fingerprint: null,
      correlationId: null,
      envelope: null,
      tags: null,
      dependsOn: [],
      dependencyType: 'AFTER',
      callbackUrl: null,
    });
  });

  it('requires a type of at most 100 characters [GM-10.10] [GA-1.02]', () => {
    expect(issues({ type: undefined })).toEqual(['type REQUIRED']);
    expect(issues({ type: '' })).toEqual(['type TOO_SHORT']);
    expect(issues({ type: 7 })).toEqual(['type INVALID_TYPE']);
    expect(issues({ type: 'x'.repeat(100) })).toEqual([]);
    expect(issues({ type: 'x'.repeat(101) })).toEqual(['type TOO_LONG']);
    expect(issues({ type: 'a\nb' })).toEqual(['type INVALID_TEXT']);
  });

  it('requires a payload [GA-1.03]', () => {
    expect(issues({ payload: undefined })).toEqual(['payload REQUIRED']);
    expect(issues({ payload: [1] })).toEqual(['payload INVALID_TYPE']);
    expect(issues({ payload: { a: 'xxxx' } }, { limits: { maxPayloadBytes: 8 } })).toEqual(['payload PAYLOAD_TOO_LARGE']);
  });

  it('takes null and undefined for absent', () => {
    const nothing = { priority: null, delay: null, scheduledAt: null, timeout: null, maxAttempts: null, backoff: null };
    const more = {
      idempotencyKey: null,
      tags: null,
      dependsOn: null,
      dependencyType: null,
      callbackUrl: null,
      queue: null,
    };
    expect(accepted({ ...nothing, ...more, correlationId: undefined })).toEqual(accepted({}));
  });

  it('refuses what is no object', () => {
    for (const given of [null, 'text', [], 3]) {
      expect(normalizeSubmission(given as never, PARAMS)).toMatchObject({ issues: [{ code: 'INVALID_TYPE' }] });
    }
  });
});

describe('members a submission does not have', () => {
  it('cannot choose the id of the job [GM-1.03]', () => {
    for (const member of ['id', 'jobId', 'job_id']) {
      const normalized = normalize({ [member]: ID });
      expect(normalized).toMatchObject({ ok: false, issues: [{ field: member, code: 'READ_ONLY_MEMBER' }] });
      expect(!normalized.ok && normalized.issues[0]?.message).toContain('the system assigns it');
    }
  });

  it('cannot write what the system keeps [GM-10.09]', () => {
    const members = ['id', 'created_at', 'updated_at', 'state', 'attempt', 'started_at', 'completed_at'];
    const library = ['createdAt', 'updatedAt', 'startedAt', 'completedAt'];
    for (const member of [...members, ...library]) expect(issues({ [member]: 1 })).toEqual([`${member} READ_ONLY_MEMBER`]);
    // scheduledAt in a submission asks for a start; it is never stored as the moment the job became scheduled.
    expect(accepted({ scheduledAt: '2020-01-01T00:00:00Z' })).not.toHaveProperty('scheduledAt');
  });

  it.each([
    ['idempotency_key', 'idempotencyKey'],
    ['priorty', 'priority'],
    ['maxattempts', 'maxAttempts'],
    ['tag', 'tags'],
    ['depends-on', 'dependsOn'],
  ])('names the nearest known one for %s', (member, nearest) => {
    const normalized = normalize({ [member]: 1 });
    expect(normalized).toMatchObject({ ok: false, issues: [{ field: member, code: 'UNKNOWN_MEMBER' }] });
    expect(!normalized.ok && normalized.issues[0]?.message).toContain(`did you mean ${nearest}?`);
  });

  it('names none when nothing is near', () => {
    const normalized = normalize({ zzzzzz: 1 });
    expect(!normalized.ok && normalized.issues[0]?.message).toBe('zzzzzz is not known');
  });
});

describe('issues', () => {
  it('are all reported at once, each with field, code and message [GA-1.28] [GA-1.29] [GA-1.30]', () => {
    const normalized = normalize({
      type: '',
      priority: 'URGENT',
      delay: 'soon',
      maxAttempts: 0,
      bogus: 1,
      queue: 'A B',
    });
    expect(normalized.ok).toBe(false);
    if (normalized.ok) return;
    expect(normalized.issues.map(({ field }) => field).sort()).toEqual(['bogus', 'delay', 'maxAttempts', 'priority', 'queue', 'type']);
    for (const issue of normalized.issues) {
      expect(issue.code).toMatch(/^[A-Z_]+$/);
      expect(issue.message).toContain(issue.field);
    }
  });
});

describe('priority and queue', () => {
  it.each([
    ['CRITICAL', 0],
    ['HIGH', 1],
    ['NORMAL', 2],
    ['LOW', 3],
    ['BULK', 4],
  ])('priority %s is stored as %i [GA-1.04] [GM-10.11]', (priority, number) => {
    expect(accepted({ priority }).priority).toBe(number);
  });

  it('refuses another word for a priority [GA-1.04]', () => {
    for (const priority of ['high', 'URGENT', 2, '']) expect(issues({ priority })).toEqual(['priority INVALID_VALUE']);
  });

  it('makes work in the critical queue critical unless it says otherwise, and never the reverse', () => {
    expect(accepted({ queue: 'q:critical' })).toMatchObject({ queue: 'q:critical', priority: 0 });
    expect(accepted({ queue: 'q:critical', priority: 'LOW' }).priority).toBe(3);
    expect(accepted({ priority: 'CRITICAL' }).queue).toBe('q:default');
  });

  it('takes any well-formed queue but the dead letters', () => {
    for (const queue of ['q:exports', 'a', 'x'.repeat(100), 'a_b.c-d:9']) expect(accepted({ queue }).queue).toBe(queue);
    for (const queue of ['q:deadletter', '', 'Q:X', 'a b', 'x'.repeat(101), 5]) {
      expect(issues({ queue })).toEqual(['queue INVALID_VALUE']);
    }
  });
});

describe('time of the start', () => {
  it('is a delay from acceptance [GA-1.05]', () => {
    expect(accepted({ delay: 'PT5M' })).toMatchObject({ runAfterMs: 300_000, runAt: null });
    expect(accepted({ delay: 300 }).runAfterMs).toBe(300_000);
    expect(accepted({ delay: 0 }).runAfterMs).toBe(null);
    expect(issues({ delay: -1 })).toEqual(['delay INVALID_DURATION']);
  });

  it('is an absolute time, also one that has passed [GA-1.06]', () => {
    const later = new Date(NOW + 60_000);
    expect(accepted({ scheduledAt: later.toISOString() })).toMatchObject({ runAfterMs: null, runAt: later });
    expect(accepted({ scheduledAt: later }).runAt).toEqual(later);
    expect(accepted({ scheduledAt: new Date(NOW - 1) }).runAt).toEqual(new Date(NOW - 1));
    expect(issues({ scheduledAt: 'tomorrow' })).toEqual(['scheduledAt INVALID_TIMESTAMP']);
  });

  it('is one or the other', () => {
    expect(issues({ delay: 5, scheduledAt: new Date(NOW) })).toEqual(['delay CONFLICTING_MEMBERS']);
  });

  it('lies within the lifetime of the job', () => {
    expect(accepted({ delay: 7 * 86_400 - 1 }).runAfterMs).toBe(7 * DAY - 1_000);
    expect(issues({ delay: '7d' })).toEqual(['delay BEYOND_LIFETIME']);
    expect(issues({ scheduledAt: new Date(NOW + 7 * DAY) })).toEqual(['scheduledAt BEYOND_LIFETIME']);
    expect(accepted({ delay: '30d', lifetime: '31d' })).toMatchObject({ runAfterMs: 30 * DAY, policy: { lifetimeMs: 31 * DAY } });
    expect(issues({ delay: '30d', lifetime: '30d' })).toEqual(['delay BEYOND_LIFETIME']);
    expect(issues({ lifetime: 0 })).toEqual(['lifetime OUT_OF_RANGE']);
    expect(issues({ lifetime: 'long' })).toEqual(['lifetime INVALID_DURATION']);
    expect(issues({ delay: '700d' }, { profile: { ...PROFILES.gopherqueue, lifetimeMs: null } })).toEqual([]);
  });
});
