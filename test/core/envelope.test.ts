import { describe, expect, it } from 'vitest';
import { DEFAULT_LIMITS, normalizeSubmission, type Submission } from '../../src/core/submission.ts';
import { isTraceparent, traceparentOf } from '../../src/core/traceparent.ts';

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const SPAN = '00f067aa0ba902b7';
const PARENT = `00-${TRACE}-${SPAN}-01`;
const PROJECT = '4b9f0f8e-4b7a-4d5e-8f00-1234567890ab';

const normalize = (members: object, requestId?: string) =>
  normalizeSubmission({ type: 'mail', payload: {}, ...members } as Submission, {
    ...{ nowMs: 0, limits: DEFAULT_LIMITS, profile: 'gopherqueue', requestId },
  });
const issues = (members: object) => {
  const normalized = normalize(members);
  return normalized.ok ? [] : normalized.issues.map(({ field, code }) => `${field} ${code}`);
};
const accepted = (members: object, requestId?: string) => {
  const normalized = normalize(members, requestId);
  if (!normalized.ok) throw new Error(JSON.stringify(normalized.issues));
  return normalized.job;
};

describe('the envelope of a submission', () => {
  it('is absent from a job that has none of its members', () => {
    expect(accepted({ category: null, projectId: undefined, traceparent: null }).envelope).toBeNull();
  });

  it('holds category, project, trace and request [AB-contract.04] [AB-contract.07] [AB-contract.13]', () => {
    const given = { category: 'notification', projectId: PROJECT.toUpperCase(), traceparent: PARENT };
    expect(accepted(given, 'r-1').envelope).toEqual({ ...given, projectId: PROJECT, requestId: 'r-1' });
    expect(accepted({}, 'r-1').envelope).toEqual({
      ...{ category: null, projectId: null, traceparent: null, requestId: 'r-1' },
    });
  });

  it('is refused member by member [AB-cat.01]', () => {
    for (const category of ['', 'reports', 'Planning', 'planning ', '__proto__', 'x'.repeat(101), 7, ['planning']])
      expect(issues({ category })).toEqual(['category INVALID_VALUE']);
    for (const projectId of ['', 'p-1', 7, PROJECT.slice(1)]) expect(issues({ projectId })).toEqual(['projectId INVALID_ID']);
    expect(issues({ traceparent: 'yes' })).toEqual(['traceparent INVALID_VALUE']);
  });

  it('tells requests apart by category, and never by trace or request', () => {
    const mark = (members: object, requestId?: string) => accepted({ idempotencyKey: 'k', ...members }, requestId).fingerprint;
    expect(mark({ traceparent: PARENT }, 'r-1')).toBe(mark({}));
    expect(mark({ category: 'planning' })).not.toBe(mark({}));
    expect(mark({ category: 'planning' })).not.toBe(mark({ category: 'maintenance' }));
  });
});

describe('a trace parent', () => {
  it.each([
    [PARENT, true],
    [`cc-${TRACE}-${SPAN}-01`, true],
    [`cc-${TRACE}-${SPAN}-01-more`, true],
    [`00-${TRACE}-${SPAN}-01-more`, false],
    [`00-${TRACE}-${SPAN}-01-`, false],
    [`00-${TRACE}-${SPAN}-01.`, false],
    [`ff-${TRACE}-${SPAN}-01`, false],
    [`00-${'0'.repeat(32)}-${SPAN}-01`, false],
    [`00-${TRACE}-${'0'.repeat(16)}-01`, false],
    [PARENT.toUpperCase(), false],
    [`${PARENT}, ${PARENT}`, false],
    [` ${PARENT}`, false],
    [`${PARENT}\n`, false],
    [`cc-${TRACE}-${SPAN}-01-${'x'.repeat(256)}`, false],
    ['', false],
  ])('%s is valid: %s [AB-contract.13]', (text, isValid) => {
    expect(isTraceparent(text)).toBe(isValid);
    expect(traceparentOf(text)).toBe(isValid ? text : null);
  });
});
