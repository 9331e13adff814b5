/** A plain submission with members of the test's own, and what becomes of it. */
import { DEFAULT_LIMITS, type NewJob, type NormalizeParams, normalizeSubmission, type Submission } from '../../src/core/submission.ts';

export const NOW = Date.UTC(2024, 0, 15, 10, 0, 0);
export const PARAMS: NormalizeParams = { nowMs: NOW, limits: DEFAULT_LIMITS, profile: 'gopherqueue' };

type Members = Record<string, unknown>;

export function normalize(members: Members, more: Partial<NormalizeParams> = {}) {
  const submission = { type: 'email.send', payload: { to: 'ann' }, ...members } as Submission;
  return normalizeSubmission(submission, { ...PARAMS, ...more });
}

export function accepted(members: Members, more: Partial<NormalizeParams> = {}): NewJob {
  const normalized = normalize(members, more);
  if (!normalized.ok) throw new Error(normalized.issues.map(({ message }) => message).join('; '));
  return normalized.job;
}

/** As `field CODE`. */
export function issues(members: Members, more: Partial<NormalizeParams> = {}): string[] {
  const normalized = normalize(members, more);
  return normalized.ok ? [] : normalized.issues.map(({ field, code }) => `${field} ${code}`);
}
