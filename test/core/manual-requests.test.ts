import { describe, expect, it } from 'vitest';
import { decideCancellation } from '../../src/core/cancellation.ts';
import { decideManualRetry } from '../../src/core/manual-retry.ts';
import { JOB_STATES, type JobState } from '../../src/core/states.ts';

describe('decideCancellation', () => {
  it.each(['pending', 'delayed', 'scheduled', 'retrying'] as const)('cancels a %s job at once', (state) => {
    expect(decideCancellation(state)).toEqual({
      kind: 'cancel',
      transition: { from: state, to: 'cancelled', reason: 'cancelled' },
    });
  });

  it('only asks a running job to stop', () => {
    expect(decideCancellation('running')).toEqual({ kind: 'request' });
  });

  it.each(['completed', 'failed', 'dead_letter', 'cancelled'] as const)('leaves a %s job alone', (state) => {
    expect(decideCancellation(state)).toEqual({ kind: 'already_complete' });
  });
});

describe('decideManualRetry', () => {
  const retry = (
    state: JobState,
    more: { attemptsStarted?: number; resetAttempts?: boolean; delayMs?: number } = {},
  ) => {
    const { attemptsStarted = 3, resetAttempts = false, delayMs = 0 } = more;
    return decideManualRetry({ job: { state, attemptsStarted, maxAttempts: 3 }, resetAttempts, delayMs });
  };

  it.each(['failed', 'dead_letter'] as const)('sends a %s job back, now or later', (state) => {
    expect(retry(state)).toMatchObject({ transition: { from: state, to: 'scheduled', reason: 'manual_retry' } });
    expect(retry(state, { delayMs: 1 })).toMatchObject({ transition: { from: state, to: 'delayed' } });
  });

  it('grants an exhausted job one more attempt, and others what they have left', () => {
    expect(retry('dead_letter')).toMatchObject({ kind: 'queued', attemptsStarted: 3, maxAttempts: 4 });
    expect(retry('failed', { attemptsStarted: 1 })).toMatchObject({ attemptsStarted: 1, maxAttempts: 3 });
  });

  it('starts a new round when the attempts are reset', () => {
    expect(retry('dead_letter', { resetAttempts: true })).toMatchObject({ attemptsStarted: 0, maxAttempts: 3 });
  });

  it('ends at a hundred attempts unless they are reset', () => {
    expect(retry('failed', { attemptsStarted: 99 })).toMatchObject({ kind: 'queued', maxAttempts: 100 });
    expect(retry('failed', { attemptsStarted: 100 }).kind).toBe('not_retriable');
    expect(retry('failed', { attemptsStarted: 100, resetAttempts: true }).kind).toBe('queued');
  });

  it('refuses every other state by name', () => {
    for (const state of JOB_STATES.filter((state) => state !== 'failed' && state !== 'dead_letter')) {
      expect(retry(state)).toEqual({ kind: 'not_retriable', message: expect.stringContaining(state) });
    }
  });
});
