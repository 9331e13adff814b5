import { describe, expect, it } from 'vitest';
import { JOB_STATES } from '../../src/core/states.ts';
import { type Caller, useQueue } from './queue-fixture.ts';

const queue = useQueue();
const NONE = { pending: 0, running: 0, completed: 0, failed: 0 };
const DURATION = /^PT(?:\d+M)?\d+(?:\.\d+)?S$/;

const secondsOf = (duration: string): number => Number(/([\d.]+)S$/.exec(duration)?.[1]);

/** One job in each state, and a second scheduled one that the pending one waits for. */
async function orgWithAllStates(): Promise<Caller> {
  const caller = await queue.caller();
  for (const state of JOB_STATES) await queue.ledger.putJob(state, { orgId: caller.orgId, type: `of-${state}` });
  return caller;
}

describe('statistics', () => {
  it('count each state by itself, retrying and cancelled too [GA-2.52..58]', async () => {
    const caller = await orgWithAllStates();
    const { status, body } = await caller.get('/stats');
    expect(status).toBe(200);
    expect(body).toMatchObject({ pending: 1, scheduled: 2, running: 1, delayed: 1, retrying: 1 });
    expect(body).toMatchObject({ completed: 1, failed: 1, dead_letter: 1, cancelled: 1 });
    expect(body).not.toHaveProperty('by_type');
    expect(body).not.toHaveProperty('by_priority');
    expect(body).not.toHaveProperty('by_state');
  });

  it('break down by type, priority and state when asked [GA-2.50] [GA-2.64..66] [GA-2.71..74]', async () => {
    const caller = await orgWithAllStates();
    const { body } = await caller.get('/stats', { breakdown_by: ['TYPE', 'PRIORITY', 'STATE'] });
    expect(body.by_type['of-running']).toEqual({ ...NONE, running: 1 });
    expect(body.by_type['of-retrying']).toEqual({ ...NONE, pending: 1 });
    expect(body.by_type['of-dead_letter']).toEqual({ ...NONE, failed: 1 });
    expect(body.by_priority).toEqual({ NORMAL: { pending: 5, running: 1, completed: 1, failed: 2 } });
    expect(body.by_state.SCHEDULED).toEqual({ ...NONE, pending: 2 });
    expect(body.by_state.COMPLETED).toEqual({ ...NONE, completed: 1 });
    expect(body.by_state.DEAD_LETTER).toEqual({ ...NONE, failed: 1 });
    expect(Object.keys(body.by_state)).toHaveLength(9);
    const only = (await caller.get('/stats', { breakdown_by: 'STATE' })).body;
    expect(only).toHaveProperty('by_state');
    expect(only).not.toHaveProperty('by_type');
  });

  it('are of this org alone', async () => {
    await orgWithAllStates();
    const { body } = await (await queue.caller()).get('/stats', { breakdown_by: 'TYPE' });
    expect(body).toMatchObject({ scheduled: 0, completed: 0, submission_rate: 0, by_type: {} });
  });

  it('give rates per second over the time range, in either form of a duration [GA-2.51] [GA-2.59..61]', async () => {
    const caller = await orgWithAllStates();
    const hour = (await caller.get('/stats')).body;
    expect(hour.submission_rate).toBeCloseTo(10 / 3_600, 6);
    expect(hour.completion_rate).toBeCloseTo(1 / 3_600, 6);
    expect(hour.failure_rate).toBeCloseTo(2 / 3_600, 6);
    for (const time_range of ['PT10M', '600']) {
      const { body } = await caller.get('/stats', { time_range });
      expect(body.completion_rate).toBeCloseTo(1 / 600, 6);
    }
  });

  it('leave out what ended before the time range [GA-2.51] [GA-2.56..58]', async () => {
    const caller = await orgWithAllStates();
    await queue.ledger.moveClock(7_200_000);
    try {
      const { body } = await caller.get('/stats');
      expect(body).toMatchObject({ completed: 0, failed: 0, dead_letter: 0, completion_rate: 0 });
      // What has not ended is counted, however old. The delayed and the retrying job are due by now, and the stager may have come before.
      expect(body.scheduled).toBeGreaterThanOrEqual(2);
      expect((await caller.get('/stats', { time_range: 'PT3H' })).body).toMatchObject({
        completed: 1,
        failed: 1,
        dead_letter: 1,
      });
    } finally {
      await queue.ledger.moveClock(-7_200_000);
    }
  });

  it('give percentiles of waiting and of running [GA-2.62] [GA-2.63] [GA-2.67..70]', async () => {
    const caller = await queue.caller();
    const empty = (await caller.get('/stats')).body;
    expect(empty.queue_latency).toEqual({ p50: null, p90: null, p99: null, max: null });
    const end = () => queue.ledger.moveClock(50);
    // One after the other: two at once would set the clock in any order.
    for (let n = 0; n < 2; n++) await caller.reached(await caller.act(end), 'COMPLETED');
    const { queue_latency: waited, execution_time: ran } = (await caller.get('/stats')).body;
    for (const latency of [waited, ran]) {
      const values = [latency.p50, latency.p90, latency.p99, latency.max];
      for (const value of values) expect(value).toMatch(DURATION);
      expect(values.map(secondsOf).toSorted((left, right) => left - right)).toEqual(values.map(secondsOf));
    }
    expect(secondsOf(ran.p50)).toBeGreaterThanOrEqual(0.05);
    expect(secondsOf(ran.max)).toBeLessThan(30);
  });

  it.each([
    ['an unknown breakdown', { breakdown_by: 'QUEUE' }],
    ['a range that is none', { time_range: 'hour' }],
    ['a range of nothing', { time_range: '0' }],
    ['an unknown parameter', { range: 'PT1H' }],
  ])('are refused for %s [GA-2.50] [GA-2.51]', async (_what, query) => {
    const { status, body } = await (await queue.caller()).get('/stats', query);
    expect([status, body.code]).toEqual([400, 'INVALID_REQUEST']);
  });
});
