import { describe, expect, it } from 'vitest';
import { isTerminal, JOB_STATES, type JobState, TERMINAL_STATES } from '../../src/core/states.ts';
import { type Reason, TRANSITIONS, transitions } from '../../src/core/transitions.ts';
import { isLegal } from './transition-table.ts';

// Written out a second time on purpose: the table under test must not be its own witness.
const EXPECTED: Record<string, readonly Reason[]> = {
  'pending scheduled': ['submitted', 'dependencies_met'],
  'pending delayed': ['submitted', 'dependencies_met'],
  'pending failed': ['dependency_failed', 'chain_stopped'],
  'pending dead_letter': ['dependency_dead_letter', 'chain_stopped', 'lifetime_exceeded'],
  'pending cancelled': ['dependency_cancelled', 'chain_stopped', 'cancelled', 'replaced'],
  'delayed scheduled': ['delay_elapsed'],
  'delayed cancelled': ['cancelled', 'replaced'],
  'delayed failed': ['retry_undone'],
  'delayed dead_letter': ['lifetime_exceeded', 'retry_undone'],
  'scheduled running': ['started'],
  'scheduled cancelled': ['cancelled', 'replaced'],
  'scheduled failed': ['retry_undone'],
  'scheduled dead_letter': ['lifetime_exceeded', 'retry_undone'],
  'running completed': ['succeeded'],
  'running failed': ['permanent_failure', 'child_failed', 'worker_lost', 'temporary_failure', 'timed_out', 'system_failure'],
  'running retrying': ['temporary_failure', 'timed_out', 'system_failure', 'worker_lost', 'released', 'postponed'],
  'running dead_letter': ['attempts_exhausted', 'lifetime_exceeded', 'poison'],
  'running cancelled': ['cancelled'],
  'retrying scheduled': ['backoff_elapsed', 'released', 'worker_lost'],
  'retrying cancelled': ['cancelled', 'replaced'],
  'retrying dead_letter': ['lifetime_exceeded'],
  'retrying failed': ['retry_dropped'],
  'failed scheduled': ['manual_retry'],
  'failed delayed': ['manual_retry'],
  'dead_letter scheduled': ['manual_retry'],
  'dead_letter delayed': ['manual_retry'],
};

const PAIRS = JOB_STATES.flatMap((from) => JOB_STATES.map((to) => ({ from, to })));
const LIVE_STATES = JOB_STATES.filter((state) => !isTerminal(state));
const edgesFrom = (from: JobState) => JOB_STATES.filter((to) => isLegal(from, to));

describe('states', () => {
  it('are the eight of the model and cancelled [GM-2.10]', () => {
    expect([...JOB_STATES].sort()).toEqual(
      ['pending', 'scheduled', 'delayed', 'running', 'completed', 'failed', 'retrying', 'dead_letter', 'cancelled'].sort(),
    );
  });

  it('divide into five that live and four that end a job', () => {
    expect(LIVE_STATES).toEqual(['pending', 'delayed', 'scheduled', 'running', 'retrying']);
    expect(TERMINAL_STATES).toEqual(['completed', 'failed', 'dead_letter', 'cancelled']);
    for (const state of JOB_STATES) expect(isTerminal(state)).toBe((TERMINAL_STATES as string[]).includes(state));
  });
});

describe('the transition table', () => {
  it('has a cell for each of the 81 pairs', () => {
    expect(PAIRS).toHaveLength(81);
    for (const { from, to } of PAIRS) expect(Array.isArray(TRANSITIONS[from][to])).toBe(true);
  });

  it.each(PAIRS)('answers for $from to $to, and refuses what no rule names [GM-2.21]', ({ from, to }) => {
    const reasons = EXPECTED[`${from} ${to}`] ?? [];
    expect([...TRANSITIONS[from][to]].sort()).toEqual([...reasons].sort());
  });

  it.each([
    ['pending', 'scheduled', 'submitted'],
    ['pending', 'delayed', 'submitted'],
    ['delayed', 'scheduled', 'delay_elapsed'],
    ['scheduled', 'running', 'started'],
    ['retrying', 'scheduled', 'backoff_elapsed'],
    ['retrying', 'dead_letter', 'lifetime_exceeded'],
  ] as const)('lets %s go to %s because of %s', (from, to, reason) => {
    expect(TRANSITIONS[from][to]).toContain(reason);
  });

  it('has none of the shortcuts a sketch of the states might draw [GM-2.22] [GM-2.23] [GM-2.24]', () => {
    expect(isLegal('failed', 'dead_letter')).toBe(false);
    expect(isLegal('retrying', 'running')).toBe(false);
    expect(isLegal('pending', 'running')).toBe(false);
    expect(isLegal('delayed', 'running')).toBe(false);
  });

  it('moves forward only within one attempt; only a new attempt goes round [GM-2.01]', () => {
    const order: Record<JobState, number> = {
      pending: 0,
      delayed: 1,
      scheduled: 2,
      running: 3,
      retrying: 4,
      completed: 5,
      failed: 5,
      dead_letter: 5,
      cancelled: 5,
    };
    const backward = PAIRS.filter(({ from, to }) => isLegal(from, to) && order[to] <= order[from]);
    expect(backward.map(({ from, to }) => `${from} ${to}`).sort()).toEqual([
      'dead_letter delayed',
      'dead_letter scheduled',
      'failed delayed',
      'failed scheduled',
      'retrying scheduled',
    ]);
    expect(edgesFrom('completed')).toEqual([]);
    expect(edgesFrom('cancelled')).toEqual([]);
  });

  it('can end every live state by cancellation and by lifetime', () => {
    for (const state of LIVE_STATES) {
      expect(TRANSITIONS[state].cancelled).toContain('cancelled');
      expect(TRANSITIONS[state].dead_letter).toContain('lifetime_exceeded');
    }
  });
});

describe('the constructors', () => {
  const camel = (word: string) => word.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase());
  const capital = (word: string) => camel(word).replace(/^./, (letter) => letter.toUpperCase());

  it('are one for each legal edge and reason, named after it', () => {
    const expected = PAIRS.flatMap(({ from, to }) =>
      TRANSITIONS[from][to].map((reason) => [`${camel(from)}To${capital(to)}${capital(reason)}`, { from, to, reason }]),
    );
    const actual = Object.entries(transitions).map(([name, construct]) => [name, construct()]);
    expect(Object.fromEntries(actual)).toEqual(Object.fromEntries(expected));
    expect(actual).toHaveLength(expected.length);
  });

  it('give literal types', () => {
    const started: { from: 'scheduled'; to: 'running'; reason: 'started' } = transitions.scheduledToRunningStarted();
    expect(Object.isFrozen(started)).toBe(true);
  });
});
