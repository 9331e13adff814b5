import { describe, expect, it } from 'vitest';
import { decideCancellation } from '../../src/core/cancellation.ts';
import { decideManualRetry } from '../../src/core/manual-retry.ts';
import { PROFILES } from '../../src/core/policy.ts';
import { JOB_STATES, type JobState } from '../../src/core/states.ts';

describe('decideCancellation', () => {
  it.each(['pending', 'delayed', 'scheduled', 'retrying'] as const)('cancels a %s job at once', (state) => {
    expect(decideCancellation(state, false)).toEqual({
      kind: 'cancel',
      transition: { from: state, to: 'cancelled', reason: 'cancelled' },
    });
  });

  it('only asks a running job to stop', () => {
    expect(decideCancellation('running', false)).toEqual({ kind: 'request' });
  });

  it.each(['completed', 'failed', 'dead_letter', 'cancelled'] as const)('leaves a %s job alone', (state) => {
    expect(decideCancellation(state, false)).toEqual({ kind: 'already_complete' });
  });
});

describe('decideCancellation where nobody waits for the handler', () => {
  it('cancels a running job at once', () => {
    expect(decideCancellation('running', true)).toEqual({
      kind: 'cancel',
      transition: { from: 'running', to: 'cancelled', reason: 'cancelled' },
    });
  });

  it('leaves a job that waits for its next attempt failed', () => {
    expect(decideCancellation('retrying', true)).toEqual({
      kind: 'drop_retry',
      transition: { from: 'retrying', to: 'failed', reason: 'retry_dropped' },
    });
  });

  it.each(JOB_STATES.filter((state) => state !== 'running' && state !== 'retrying'))('does to a %s job what it does anywhere', (state) =>
    expect(decideCancellation(state, true)).toEqual(decideCancellation(state, false)),
  );
});

describe('decideManualRetry', () => {
  const retry = (state: JobState, more: { attemptsStarted?: number; resetAttempts?: boolean; delayMs?: number } = {}) => {
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
    const postponed = { state: 'failed', attemptsStarted: 500, maxAttempts: 502 } as const;
    expect(decideManualRetry({ job: postponed, resetAttempts: false, delayMs: 0 })).toMatchObject({ kind: 'queued', maxAttempts: 502 });
    expect(decideManualRetry({ job: postponed, resetAttempts: true, delayMs: 0 })).toMatchObject({ kind: 'queued', maxAttempts: 100 });
  });

  it('refuses every other state by name', () => {
    for (const state of JOB_STATES.filter((state) => state !== 'failed' && state !== 'dead_letter')) {
      expect(retry(state)).toEqual({ kind: 'not_retriable', message: expect.stringContaining(state) });
    }
  });
});

describe('decideManualRetry within the limit', () => {
  const retry = (attemptsStarted: number, more: { resetAttempts?: boolean; delayMs?: number } = {}) =>
    decideManualRetry({
      job: { state: 'failed', attemptsStarted, maxAttempts: 4 },
      resetAttempts: more.resetAttempts ?? false,
      delayMs: more.delayMs ?? null,
      policy: PROFILES.forgerun,
      random: 0.5,
    });

  it('grants what is left of the attempts, each after its backoff', () => {
    const granted = [1, 2, 3].map((attemptsStarted) => retry(attemptsStarted));
    expect(granted.map((decision) => 'delayMs' in decision && decision.delayMs)).toEqual([1_000, 2_000, 4_000]);
    for (const decision of granted) expect(decision).toMatchObject({ transition: { to: 'delayed' }, maxAttempts: 4 });
  });

  it('grants nothing when none is left, with a reset or without', () => {
    expect(retry(4)).toEqual({ kind: 'exhausted' });
    expect(retry(4, { resetAttempts: true })).toEqual({ kind: 'exhausted' });
  });

  it('resets nothing, and heeds a delay that was asked for', () => {
    expect(retry(2, { resetAttempts: true, delayMs: 0 })).toMatchObject({
      ...{ attemptsStarted: 2, startsRound: false, delayMs: 0 },
      transition: { to: 'scheduled' },
    });
  });
});
