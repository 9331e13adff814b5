import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { AppError } from '../../src/core/errors.ts';
import { EVENT_NAMES, EVENT_REASONS, type ExecutionEvent, projectEvents, projectSteps } from '../../src/core/execution/events.ts';
import { isAllowed } from '../../src/core/execution/states.ts';
import { isUuid } from '../../src/core/ids.ts';
import type { StateTransition } from '../../src/core/job.ts';
import { histories, historyOf } from './execution-history.ts';

const JOB = '3f0c9f5e-0d5b-4c39-9a53-1a2f3a0b7c11';
const BORN = 'pending>scheduled submitted';
const STARTED = 'scheduled>running started';

const project = (history: StateTransition[], maxAttempts = 4): ExecutionEvent[] =>
  projectEvents({ jobId: JOB, scenario: 'SUCCESS_FAST', maxAttempts, history });

/** `CREATED>QUEUED job.queued 1 reason` */
const told = (history: StateTransition[], maxAttempts?: number): string[] =>
  project(history, maxAttempts).map(({ prevState, nextState, eventName, attempt, reason, retriesExhausted }) =>
    [`${prevState ?? ''}>${nextState}`, eventName, attempt, reason, retriesExhausted && 'exhausted']
      .filter((part) => part !== undefined)
      .join(' '),
  );

const CREATED = '>CREATED job.created 1';
const QUEUED = 'CREATED>QUEUED job.queued 1';
const RUN = ['QUEUED>ASSIGNED job.assigned 1', 'ASSIGNED>RUNNING job.running 1'];
const again = (attempt: number, by = 'manual') => [
  `FAILED>QUEUED job.retried ${attempt} ${by}`,
  `QUEUED>ASSIGNED job.assigned ${attempt}`,
  `ASSIGNED>RUNNING job.running ${attempt}`,
];

describe('the events of a job', () => {
  it('tell an ordinary life', () => {
    const history = historyOf(BORN, STARTED, 'running>completed succeeded');
    expect(told(history)).toEqual([CREATED, QUEUED, ...RUN, 'RUNNING>SUCCEEDED job.succeeded 1']);
  });

  it('tell of a deferred job when it enters the queue', () => {
    const waiting = historyOf('pending>delayed submitted');
    expect(told(waiting)).toEqual([CREATED]);
    expect(told([...waiting, ...historyOf('delayed>scheduled delay_elapsed')])).toEqual([CREATED, QUEUED]);
  });

  it('tell of a retry once, whether it waits for its backoff or not', () => {
    const failed = [BORN, STARTED, 'running>failed temporary_failure'];
    const expected = [CREATED, QUEUED, ...RUN, 'RUNNING>FAILED job.failed 1 failure', ...again(2)];
    expect(told(historyOf(...failed, 'failed>scheduled manual_retry', STARTED))).toEqual(expected);
    const delayed = ['failed>delayed manual_retry', 'delayed>scheduled delay_elapsed', STARTED];
    expect(told(historyOf(...failed, ...delayed))).toEqual(expected);
  });

  it('tell of a retry that nobody asked for, and nothing of one that was dropped', () => {
    const failed = [BORN, STARTED, 'running>retrying temporary_failure'];
    const before = [CREATED, QUEUED, ...RUN, 'RUNNING>FAILED job.failed 1 failure'];
    const back = historyOf(...failed, 'retrying>scheduled backoff_elapsed', STARTED);
    expect(told(back)).toEqual([...before, ...again(2, 'automatic')]);
    expect(told(historyOf(...failed, 'retrying>failed retry_dropped'))).toEqual(before);
  });

  it.each([
    ['permanent_failure', 'job.failed 1 failure'],
    ['system_failure', 'job.failed 1 failure'],
    ['timed_out', 'job.timed_out 1 timeout'],
    ['worker_lost', 'job.failed 1 worker_lost'],
  ])('tell why an attempt failed: %s', (reason, event) => {
    expect(told(historyOf(BORN, STARTED, `running>failed ${reason}`)).at(-1)).toBe(`RUNNING>FAILED ${event}`);
  });

  it('end with a final event at the last allowed attempt, and no sooner', () => {
    const failed = (reason: string) => [STARTED, `running>failed ${reason}`, 'failed>scheduled manual_retry'];
    const history = historyOf(BORN, ...failed('temporary_failure'), ...failed('timed_out').slice(0, 2));
    expect(told(history, 2).filter((line) => line.includes('>FAILED'))).toEqual([
      'RUNNING>FAILED job.failed 1 failure',
      'RUNNING>FAILED job.failed_final 2 timeout exhausted',
    ]);
    const dead = historyOf(BORN, STARTED, 'running>dead_letter attempts_exhausted');
    expect(told(dead, 1).at(-1)).toBe('RUNNING>FAILED job.failed_final 1 retries_exhausted exhausted');
    const late = historyOf(BORN, STARTED, 'running>dead_letter attempts_exhausted timed_out');
    expect(told(late, 1).at(-1)).toBe('RUNNING>FAILED job.failed_final 1 timeout exhausted');
  });

  it('count no attempt that a stopped worker gave back', () => {
    const released = [STARTED, 'running>retrying released', 'retrying>scheduled released'];
    // The limit was 2 and went up by one with the attempt given back.
    const history = historyOf(BORN, ...released, STARTED, 'running>failed temporary_failure');
    expect(told(history, 3).filter((line) => line.includes('>FAILED'))).toEqual([
      'RUNNING>FAILED job.failed 1 worker_stopped',
      'RUNNING>FAILED job.failed 2 failure',
    ]);
    const last = historyOf(BORN, ...released, STARTED, 'running>failed temporary_failure', 'failed>scheduled manual_retry').concat(
      historyOf(STARTED, 'running>failed temporary_failure').map((each) => ({ ...each, attempt: 3 })),
    );
    expect(told(last, 3).at(-1)).toBe('RUNNING>FAILED job.failed_final 3 failure exhausted');
  });

  it('show a postponed job of the queue API as queued again, not as failed', () => {
    const history = historyOf(BORN, STARTED, 'running>retrying postponed', 'retrying>scheduled backoff_elapsed');
    const events = projectSteps({ jobId: JOB, history, maxAttempts: 4, isForeign: true }).flat();
    expect(events.map(({ eventName }) => eventName).slice(-2)).toEqual(['job.running', 'job.queued']);
  });

  it.each([
    [[BORN, 'scheduled>cancelled cancelled'], 'QUEUED>CANCELED job.canceled 1 canceled'],
    [[BORN, 'scheduled>cancelled cancelled claimed'], 'ASSIGNED>CANCELED job.canceled 1 canceled'],
    [['pending>delayed submitted', 'delayed>cancelled cancelled'], 'CREATED>CANCELED job.canceled 1 canceled'],
    [[BORN, STARTED, 'running>cancelled cancelled'], 'RUNNING>CANCELED job.canceled 1 canceled'],
  ])('tell of a cancel after %j', (lines, event) => {
    expect(told(historyOf(...lines)).at(-1)).toBe(event);
  });

  it('refuse a history that no job of this surface can have', () => {
    const impossible = [
      [BORN, STARTED, 'running>retrying temporary_failure', 'retrying>cancelled cancelled'],
      [BORN, STARTED, 'running>dead_letter lifetime_exceeded'],
      [BORN, 'scheduled>dead_letter lifetime_exceeded'],
    ];
    for (const lines of impossible) expect(() => project(historyOf(...lines))).toThrow(AppError);
  });

  it('begin with what is left when the oldest records are gone', () => {
    const history = historyOf(BORN, STARTED, 'running>completed succeeded');
    expect(told(history.slice(1))).toEqual([...RUN, 'RUNNING>SUCCEEDED job.succeeded 1']);
  });
});

describe('the events of any life', () => {
  const always = (check: (events: ExecutionEvent[], history: StateTransition[]) => void) =>
    fc.assert(
      fc.property(histories, (history) => check(project(history), history)),
      { numRuns: 500 },
    );

  it('are each one change of state, and form a chain of allowed changes from CREATED on [FR-05.05]', () => {
    always((events) => {
      expect(events[0]).toMatchObject({ prevState: null, nextState: 'CREATED' });
      for (const [index, { prevState, nextState }] of events.slice(1).entries()) {
        expect(prevState).toBe(events[index]?.nextState);
        expect(prevState !== null && isAllowed(prevState, nextState)).toBe(true);
      }
    });
  });

  it('are told apart by job, timestamp and name, and timestamps grow by microseconds [FR-05.06]', () => {
    always((events) => {
      const stamps = events.map(({ timestamp }) => timestamp);
      for (const stamp of stamps) expect(stamp).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/);
      expect(stamps).toEqual([...new Set(stamps)].toSorted());
      const ids = events.map(({ eventId }) => eventId);
      expect(new Set(ids).size).toBe(ids.length);
      expect(ids.every(isUuid)).toBe(true);
    });
  });

  it('never change: what was told at any moment is still told later, word for word [FR-05.07]', () => {
    always((events, history) => {
      const refunds = (part: StateTransition[]) => part.filter(({ from, reason }) => from === 'running' && reason === 'released').length;
      for (let length = 1; length < history.length; length++) {
        const earlier = history.slice(0, length);
        // The limit as it stood then.
        const limit = 4 - refunds(history) + refunds(earlier);
        const before = project(earlier, limit);
        expect(events.slice(0, before.length)).toEqual(before);
      }
    });
  });

  it('each name the scenario, the job and a known event [FR-06.15]', () => {
    always((events) => {
      for (const { scenario, jobId, eventName, reason } of events) {
        expect({ scenario, jobId }).toEqual({ scenario: 'SUCCESS_FAST', jobId: JOB });
        expect(EVENT_NAMES).toContain(eventName);
        if (reason !== undefined) expect(EVENT_REASONS).toContain(reason);
      }
    });
  });
});
