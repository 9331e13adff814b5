import { describe, expect, it } from 'vitest';
import type { Failure } from '../../src/core/failure.ts';
import { attemptResult, currentAttempt, hasResult } from '../../src/core/job.ts';

describe('currentAttempt', () => {
  it('is 1-indexed: 1 before and during the first run [GM-10.05]', () => {
    expect([0, 1, 2, 3].map(currentAttempt)).toEqual([1, 1, 2, 3]);
  });
});

describe('hasResult', () => {
  it('is true of a job that ended after at least one attempt', () => {
    for (const state of ['completed', 'failed', 'dead_letter', 'cancelled'] as const) {
      expect(hasResult({ state, attemptsStarted: 1 })).toBe(true);
      expect(hasResult({ state, attemptsStarted: 0 })).toBe(false);
    }
    for (const state of ['pending', 'scheduled', 'running', 'retrying', 'delayed'] as const) {
      expect(hasResult({ state, attemptsStarted: 1 })).toBe(false);
    }
  });
});

describe('attemptResult', () => {
  const failure = (category: Failure['category']): Failure => ({ category, code: 'CODE', message: 'message' });

  it('is one of four words', () => {
    expect(attemptResult(null)).toBe('SUCCESS');
    expect(attemptResult(failure('TIMEOUT'))).toBe('TIMEOUT');
    expect(attemptResult(failure('CANCELLED'))).toBe('CANCELLED');
    for (const category of ['TEMPORARY', 'PERMANENT', 'SYSTEM'] as const) {
      expect(attemptResult(failure(category))).toBe('FAILURE');
    }
  });
});
