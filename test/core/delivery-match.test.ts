import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { matchDeliveries, type OutboxJob, type OutboxTransition, publicEventsOf } from '../../src/core/delivery-match.ts';
import { EVENT_NAMES, projectEvents } from '../../src/core/execution/events.ts';
import { JOB_EVENT_NAMES, SUBSCRIBABLE } from '../../src/core/public-events.ts';
import { isTerminal, JOB_STATES, type JobState } from '../../src/core/states.ts';
import { type Reason, TRANSITIONS } from '../../src/core/transitions.ts';

const JOB: OutboxJob = {
  ...{ orgId: 'o', seq: 1, jobId: '6f1f7a2e-6a53-4a60-8d5e-0c1e6e1c3f0a', jobType: 'mail', profile: 'gopherqueue' },
  ...{ scenario: null, executionType: null, maxAttempts: 3, callbackUrl: 'https://example.com/', history: [] },
};

type Step = readonly [to: JobState, reason: Reason, attempt?: number];

function historyOf(steps: readonly Step[]): OutboxTransition[] {
  let from: JobState | null = 'pending';
  return steps.map(([to, reason, attempt = 0], index) => {
    const made: OutboxTransition = {
      ...{ n: index + 1, txid: 100 + index, from, to, reason, attempt, actor: null },
      ...{
        at: new Date(Date.UTC(2026, 0, 1) + index),
        failure: to === 'failed' ? { category: 'PERMANENT', code: 'NO' } : null,
      },
    };
    from = to;
    return made;
  });
}

const told = (job: Partial<OutboxJob>, ...steps: Step[]) => publicEventsOf({ ...JOB, ...job, history: historyOf(steps) });
const names = (events: readonly { name: string }[]) => events.map(({ name }) => name);

const SUCCESS: Step[] = [
  ['scheduled', 'submitted'],
  ['running', 'started', 1],
  ['completed', 'succeeded', 1],
];
const EXECUTION = {
  jobType: 'forgerun.simulated',
  profile: 'forgerun',
  scenario: 'SUCCESS_FAST',
  executionType: 'EXECUTE',
};

describe('what a history tells', () => {
  it('of a job of the execution API is what its report shows: the same ids and names, and the times to the millisecond', () => {
    const history = historyOf(SUCCESS);
    const report = projectEvents({ jobId: JOB.jobId, scenario: 'SUCCESS_FAST', maxAttempts: 3, history });
    const bodies = told(EXECUTION, ...SUCCESS).map(({ body }) => JSON.parse(body));
    expect(bodies.map(({ type, timestamp, data }) => [data.event_id, type, timestamp, data.scenario])).toEqual(
      report.map(({ eventId, eventName, timestamp, scenario }) => [...[eventId, eventName, `${timestamp.slice(0, 23)}Z`, scenario]]),
    );
  });

  it('has one thing more for a job that emits an event, with an id of its own', () => {
    const events = told({ ...EXECUTION, executionType: 'EMIT_EVENT' }, ...SUCCESS);
    expect(names(events).slice(-2)).toEqual(['job.succeeded', 'job.event_emitted']);
    expect(new Set(events.map(({ body }) => JSON.parse(body).data.event_id)).size).toBe(events.length);
    expect(events.at(-1)).toMatchObject({ n: 3, index: 1 });
  });

  it('of a job of another door says how it ended, in the words of both', () => {
    const steps: Step[] = [
      ['scheduled', 'submitted'],
      ['running', 'started', 1],
      ['retrying', 'temporary_failure', 1],
    ];
    steps.push(['scheduled', 'backoff_elapsed', 1], ['running', 'started', 2], ['dead_letter', 'attempts_exhausted', 2]);
    const events = told({}, ...steps);
    expect(names(events)).toEqual([
      ...['job.created', 'job.queued', 'job.assigned', 'job.running', 'job.failed', 'job.retried'],
      ...['job.assigned', 'job.running', 'job.failed_final'],
    ]);
    expect(JSON.parse(events.at(-1)?.body ?? '').data).toMatchObject({ state: 'DEAD_LETTER', next_state: 'FAILED' });
  });

  it('is silent for a profile that tells nobody', () => {
    expect(told({ profile: 'fetchbox' }, ...SUCCESS)).toEqual([]);
  });

  it('has a known name for every cell of the table of transitions, whatever door the job came through', () => {
    for (const from of JOB_STATES) {
      for (const to of JOB_STATES) {
        for (const reason of TRANSITIONS[from][to]) {
          for (const job of [{}, EXECUTION]) {
            const history = historyOf([[to, reason, 1]]).map((transition) => ({ ...transition, from }));
            const events = publicEventsOf({ ...JOB, ...job, history });
            for (const { name } of events) expect(JOB_EVENT_NAMES).toContain(name);
            if (isTerminal(to) && reason !== 'retry_dropped') expect(events.length, `${from} ${to} ${reason}`).toBeGreaterThan(0);
          }
        }
      }
    }
  });
});

describe('whom an event is for', () => {
  const webhook = (id: string, events: readonly string[], sinceTxid = 0) => ({ id, orgId: 'o', events, sinceTxid });
  const targetsOf = (events: ReturnType<typeof told>, ...webhooks: ReturnType<typeof webhook>[]) =>
    matchDeliveries(events, webhooks).map(({ event, webhookId, url }) => `${event.name} ${webhookId ?? url}`);

  it('every webhook of the org that asked for it and was there before it', () => {
    const events = told({ callbackUrl: null }, ...SUCCESS);
    const matched = targetsOf(
      events,
      webhook('a', ['job.running', 'job.succeeded'], 101),
      webhook('b', ['*'], 102),
      webhook('c', ['*'], 101),
    );
    expect(matched).toEqual(['job.succeeded a', 'job.succeeded c']);
    expect(targetsOf(events, { ...webhook('d', ['*']), orgId: 'other' })).toEqual([]);
  });

  it('the callback of the job: at each end, and for the execution API at each event', () => {
    const url = JOB.callbackUrl;
    expect(targetsOf(told({}, ...SUCCESS))).toEqual([`job.succeeded ${url}`]);
    expect(targetsOf(told(EXECUTION, ...SUCCESS))).toHaveLength(5);
    expect(targetsOf(told({ profile: 'fetchbox' }, ...SUCCESS))).toEqual([]);
  });

  it('a name matches itself and the star alone', () => {
    const [event] = told({ callbackUrl: null }, ...SUCCESS);
    fc.assert(
      fc.property(fc.uniqueArray(fc.constantFrom(...SUBSCRIBABLE)), (asked) => {
        const isAsked = asked.includes('*') || asked.includes('job.created');
        return (targetsOf([event as never], webhook('a', asked)).length === 1) === isAsked;
      }),
    );
    expect(EVENT_NAMES.every((name) => (SUBSCRIBABLE as readonly string[]).includes(name))).toBe(true);
  });
});
