import { describe, expect, it } from 'vitest';
import { EXECUTION_TYPE } from '../../src/core/execution/kinds.ts';
import { checkUpdate } from '../../src/core/job-change.ts';
import { PROFILES } from '../../src/core/policy.ts';
import { DEFAULT_LIMITS, type NormalizedSubmission, type NormalizeParams, normalizeSubmission } from '../../src/core/submission.ts';

const normalize = (type: string, more: Partial<NormalizeParams> = {}): NormalizedSubmission =>
  normalizeSubmission(
    { type, payload: {}, idempotencyKey: 'k' },
    { nowMs: 1_000, limits: DEFAULT_LIMITS, profile: 'gopherqueue', ...more },
  );

const codesOf = (result: { ok: boolean; issues?: readonly { field: string; code: string }[] }): string[] =>
  (result.issues ?? []).map(({ field, code }) => `${field} ${code}`);

describe('a type that belongs to the execution API', () => {
  it('is refused from everybody else', () => {
    for (const type of [EXECUTION_TYPE, 'forgerun.', 'forgerun.anything']) expect(codesOf(normalize(type))).toEqual(['type RESERVED_TYPE']);
    expect(normalize('forgerunner').ok).toBe(true);
  });

  it('is taken with its own policy, also one that the configuration altered', () => {
    expect(normalize(EXECUTION_TYPE, { profile: 'forgerun' }).ok).toBe(true);
    const profile = { ...PROFILES.forgerun, timeoutMs: 1_200 };
    expect(normalize(EXECUTION_TYPE, { profile })).toMatchObject({ ok: true, job: { policy: profile } });
  });

  it('cannot be given to a job later', () => {
    expect(codesOf(checkUpdate({ type: EXECUTION_TYPE }))).toEqual(['type RESERVED_TYPE']);
    expect(checkUpdate({ type: 'email.send' }).ok).toBe(true);
  });
});

describe('a fingerprint of the request behind a submission', () => {
  it('stands in for the one of the submission', () => {
    const given = normalize('email.send', { fingerprint: 'of the request' });
    expect(given).toMatchObject({ ok: true, job: { fingerprint: 'of the request' } });
    const computed = normalize('email.send');
    expect(computed).toMatchObject({ ok: true, job: { fingerprint: expect.stringMatching(/^[0-9a-f]{64}$/) } });
  });
});
