import { describe, expect, it } from 'vitest';
import { projectEvents } from '../../src/core/execution/events.ts';
import { failureOf } from '../../src/core/execution/states.ts';
import type { Failure } from '../../src/core/failure.ts';
import type { JobState } from '../../src/core/states.ts';
import { reportOf } from '../../src/services/execution/read-execution.ts';
import { historyOf, START_MS } from '../core/execution-history.ts';

const JOB = '3f0c9f5e-0d5b-4c39-9a53-1a2f3a0b7c11';
const BORN = 'pending>scheduled submitted';
const STARTED = 'scheduled>running started';
const FAILED = 'running>failed temporary_failure';

const eventsOf = (...lines: string[]) =>
  projectEvents({ jobId: JOB, scenario: 'SUCCESS_FAST', maxAttempts: 4, history: historyOf(...lines) });

const job = (state: JobState, lastFailure: Failure | null = null) => ({
  ...{ id: JOB, state, attemptsStarted: 1, isLeased: false, lastFailure },
});

describe('a report', () => {
  it('tells the attempt that gave the outcome', () => {
    const events = eventsOf(BORN, STARTED, FAILED, 'failed>scheduled manual_retry', STARTED, 'running>completed succeeded');
    expect(reportOf(job('completed'), events)).toEqual({
      jobId: JOB,
      outcome: 'SUCCESS',
      events,
      startedAt: new Date(START_MS + 4_000),
      finishedAt: new Date(START_MS + 5_000),
      durationMs: 1_000,
      failure: null,
    });
  });

  it('has no start and no duration for a job canceled before it, also before its second attempt', () => {
    const early = reportOf(job('cancelled'), eventsOf(BORN, 'scheduled>cancelled cancelled'));
    const later = reportOf(
      job('cancelled'),
      eventsOf(BORN, STARTED, FAILED, 'failed>scheduled manual_retry', 'scheduled>cancelled cancelled'),
    );
    for (const report of [early, later]) expect(report).toMatchObject({ outcome: 'CANCELED', startedAt: null, durationMs: 0 });
    expect(later?.finishedAt).toEqual(new Date(START_MS + 4_000));
  });

  it('says why a job failed', () => {
    const failure: Failure = { category: 'TIMEOUT', code: 'EXECUTION_TIMEOUT', message: 'late', stackTrace: 'at x' };
    const report = reportOf(job('failed', failure), eventsOf(BORN, STARTED, 'running>failed timed_out'));
    expect(report?.failure).toEqual({ code: 'RFA_EXEC_TIMEOUT', message: 'late', retryable: true });
  });

  it('is absent while the job is not final, without history, and with one that has moved on', () => {
    expect(reportOf(job('running'), eventsOf(BORN, STARTED))).toBeNull();
    expect(reportOf(job('completed'), [])).toBeNull();
    expect(reportOf(job('failed'), eventsOf(BORN, STARTED, FAILED, 'failed>scheduled manual_retry'))).toBeNull();
  });
});

describe('a failure', () => {
  it.each([
    ['TEMPORARY', true],
    ['SYSTEM', true],
    ['TIMEOUT', true],
    ['PERMANENT', false],
    ['CANCELLED', false],
  ] as const)('of category %s says whether trying again may help', (category, retryable) => {
    expect(failureOf({ category, code: 'X', message: 'm' })).toEqual({ code: 'X', message: 'm', retryable });
  });

  it('is absent where there is none', () => {
    expect(failureOf(null)).toBeNull();
  });
});
