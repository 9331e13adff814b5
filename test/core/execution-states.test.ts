import { describe, expect, it } from 'vitest';
import {
  coreStatesOf,
  EXECUTION_STATES,
  type ExecutionState,
  executionStateOf,
  isAllowed,
  outcomeOf,
} from '../../src/core/execution/states.ts';
import { JOB_STATES, type JobState } from '../../src/core/states.ts';

const stateOf = (state: JobState, { attemptsStarted = 0, isLeased = false } = {}): ExecutionState =>
  executionStateOf({ state, attemptsStarted, isLeased });

describe('the seven states', () => {
  it('are these and no others [FR-09.08]', () => {
    expect(EXECUTION_STATES).toEqual(['CREATED', 'QUEUED', 'ASSIGNED', 'RUNNING', 'SUCCEEDED', 'FAILED', 'CANCELED']);
    const shown = JOB_STATES.flatMap((state) =>
      [0, 1].flatMap((attemptsStarted) => [true, false].map((isLeased) => stateOf(state, { attemptsStarted, isLeased }))),
    );
    expect(new Set(shown)).toEqual(new Set(EXECUTION_STATES));
  });

  it.each([
    ['CREATED', 'a job that waits for its time', 'delayed', {}, '[FR-09.01]'],
    ['CREATED', 'a job just accepted', 'pending', {}, '[FR-09.09]'],
    ['QUEUED', 'a job that waits for a worker', 'scheduled', {}, '[FR-09.02]'],
    ['QUEUED', 'a job that waits between two attempts', 'delayed', { attemptsStarted: 1 }, '[FR-09.02]'],
    ['ASSIGNED', 'a job that a worker claimed', 'scheduled', { isLeased: true }, '[FR-09.03]'],
    ['RUNNING', 'a job at work', 'running', { attemptsStarted: 1 }, '[FR-09.04]'],
    ['SUCCEEDED', 'a job that is done', 'completed', { attemptsStarted: 1 }, '[FR-09.05]'],
    ['FAILED', 'a job with an error', 'failed', { attemptsStarted: 1 }, '[FR-09.06]'],
    ['FAILED', 'a job that was given up', 'dead_letter', { attemptsStarted: 4 }, '[FR-09.06]'],
    ['FAILED', 'a job that will be tried again by itself', 'retrying', { attemptsStarted: 1 }, '[FR-09.06]'],
    ['CANCELED', 'a job somebody canceled', 'cancelled', {}, '[FR-09.07]'],
  ] as const)('read %s for %s, which is %s %j %s', (expected, _what, state, facts, _id) => {
    expect(stateOf(state, facts)).toBe(expected);
  });

  it('end in SUCCEEDED, FAILED and CANCELED, each with its outcome, and have none before [FR-09.10]', () => {
    expect(EXECUTION_STATES.map((state) => [state, outcomeOf(state)])).toEqual([
      ['CREATED', null],
      ['QUEUED', null],
      ['ASSIGNED', null],
      ['RUNNING', null],
      ['SUCCEEDED', 'SUCCESS'],
      ['FAILED', 'FAILED'],
      ['CANCELED', 'CANCELED'],
    ]);
  });

  it('know ten changes: an end has no way on but the retry of a failure', () => {
    const allowed = EXECUTION_STATES.flatMap((from) => EXECUTION_STATES.filter((to) => isAllowed(from, to)).map((to) => `${from}>${to}`));
    expect(allowed).toHaveLength(10);
    expect(allowed.filter((pair) => /^(?:SUCCEEDED|CANCELED|FAILED)>/.test(pair))).toEqual(['FAILED>QUEUED']);
  });

  it('are searched by every core state that may read so', () => {
    for (const state of JOB_STATES) {
      for (const attemptsStarted of [0, 1]) {
        for (const isLeased of [true, false]) expect(coreStatesOf(stateOf(state, { attemptsStarted, isLeased }))).toContain(state);
      }
    }
    expect(coreStatesOf('RUNNING')).toEqual(['running']);
    expect(coreStatesOf('FAILED')).toEqual(['retrying', 'failed', 'dead_letter']);
  });
});
