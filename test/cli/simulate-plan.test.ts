import { describe, expect, it } from 'vitest';
import { readOptions } from '../../src/cli/simulate/options.ts';
import { KINDS, WORK_KINDS, type WorkKind } from '../../src/core/execution/kinds.ts';
import { closedLoop, openLoop } from '../../src/simulator/pace.ts';
import { type PlanOptions, planRun } from '../../src/simulator/plan.ts';

const EACH: PlanOptions = {
  choice: { order: 'each', kinds: WORK_KINDS },
  ...{ clients: 4, jobs: 4 * WORK_KINDS.length, seed: 1, farFutureMs: 36_000 },
};
const mixOf = (weights: Partial<Record<WorkKind, number>>): PlanOptions['choice'] => ({
  order: 'mix',
  weights: new Map(Object.entries(weights) as [WorkKind, number][]),
});

describe('a plan', () => {
  it('of all kinds has each of the 31 once for every client, in every type that the kind may have [FR-04.02]', () => {
    const plan = [...planRun(EACH)];
    for (const kind of WORK_KINDS) {
      const planned = plan.filter((job) => job.kind === kind);
      expect(planned.map(({ client }) => client).sort()).toEqual([0, 1, 2, 3]);
      expect(new Set(planned.map(({ type }) => type))).toEqual(new Set(KINDS[kind].types));
    }
    expect(new Set(plan.map(({ key }) => key)).size).toBe(plan.length);
  });

  it('has a time for deferred jobs alone, and a far one where the kind says so', () => {
    for (const { type, kind, executionInMs } of planRun(EACH)) {
      if (type !== 'DEFERRED') expect(executionInMs).toBeNull();
      else if (kind === 'SCHEDULED_FAR_FUTURE') expect(executionInMs).toBe(36_000);
      else expect(executionInMs).toBeLessThan(10_000);
    }
  });

  it('is the same for the same seed and another for another', () => {
    const of = (seed: number) => [...planRun({ ...EACH, seed, choice: mixOf({ SUCCESS_FAST: 1, CPU_BURST: 1 }) })];
    expect(of(7)).toEqual(of(7));
    expect(of(7)).not.toEqual(of(8));
  });

  it('of a mix draws kinds by their weights, and no other', () => {
    const plan = [...planRun({ ...EACH, jobs: 4_000, choice: mixOf({ SUCCESS_FAST: 3, FAIL_IMMEDIATE: 1 }) })];
    const fast = plan.filter(({ kind }) => kind === 'SUCCESS_FAST').length;
    expect(new Set(plan.map(({ kind }) => kind))).toEqual(new Set(['SUCCESS_FAST', 'FAIL_IMMEDIATE']));
    expect(fast / plan.length).toBeCloseTo(0.75, 1);
  });
});

describe('a pace', () => {
  it('of so many at once gives no permit beyond them until one is done', async () => {
    const stop = new AbortController();
    const pace = closedLoop(2, stop.signal);
    const first = await pace.next();
    await pace.next();
    let isGiven = false;
    const third = pace.next().then((permit) => {
      isGiven = true;
      return permit;
    });
    await new Promise(setImmediate);
    expect(isGiven).toBe(false);
    first.value?.done();
    expect((await third).done).toBe(false);
    const fourth = pace.next();
    stop.abort();
    expect((await fourth).done).toBe(true);
  });

  it('of so many a second counts from the intended time, however late the permits are taken', async () => {
    const intended: number[] = [];
    for await (const { intendedMs } of openLoop(1_000)) {
      intended.push(intendedMs);
      if (intended.length === 5) break;
    }
    const gaps = intended.slice(1).map((at, index) => at - (intended[index] as number));
    for (const gap of gaps) expect(gap).toBeCloseTo(1, 6);
  });
});

describe('options', () => {
  it('ask for every kind once by each of four clients unless told', () => {
    const { run, host } = readOptions({});
    expect(host).toEqual({ kind: 'remote', url: 'http://127.0.0.1:8484', restart: undefined });
    expect(run).toMatchObject({
      ...{ plan: { choice: { order: 'each', kinds: WORK_KINDS }, clients: 4, jobs: 124 } },
      ...{ pace: { concurrency: 64 }, durationMs: null, timeScale: 1 },
    });
  });

  it('take any kind by name, rates, durations, weights and expectations [FR-04.02]', () => {
    expect(readOptions({ kinds: [...WORK_KINDS] }).run.plan.choice).toEqual({ order: 'each', kinds: WORK_KINDS });
    const { run, host } = readOptions({
      ...{ embedded: true, mix: ['success_fast=3,CPU_BURST=0.5'], rate: '500/s', duration: '1m', seed: '9' },
      ...{ 'time-scale': '0.01', 'far-future': '2h', expect: ['CPU_BURST=FAILED'], clients: '20' },
    });
    expect(host).toEqual({ kind: 'embedded', databaseUrl: undefined });
    expect(run).toMatchObject({
      plan: { clients: 20, jobs: Number.POSITIVE_INFINITY, seed: 9, farFutureMs: 72_000 },
      ...{ pace: { ratePerSecond: 500 }, durationMs: 60_000, timeScale: 0.01 },
    });
    expect(run.plan.choice).toEqual(mixOf({ SUCCESS_FAST: 3, CPU_BURST: 0.5 }));
    expect(run.expectations).toEqual(new Map([['CPU_BURST', 'FAILED']]));
  });

  it.each([
    [{ kinds: ['SUCCESS_FASTER'] }, /does not know "SUCCESS_FASTER".*SUCCESS_FAST/],
    [{ all: true, kinds: ['CPU_BURST'] }, /--all and --kinds cannot be given together/],
    [{ rate: '5/s', concurrency: '3' }, /--rate and --concurrency cannot be given together/],
    [{ embedded: true, url: 'http://x' }, /--embedded and --url cannot be given together/],
    [{ mix: ['CPU_BURST'] }, /--mix takes NAME=VALUE/],
    [{ mix: ['CPU_BURST=0'] }, /--mix takes a number above 0/],
    [{ expect: ['CPU_BURST=DONE'] }, /--expect does not know "DONE"/],
    [{ url: 'ftp://host' }, /--url takes an address/],
    [{ 'time-scale': '0' }, /--time-scale takes a number above 0/],
  ])('refuse %o with a sentence that helps', (values, message) => {
    expect(() => readOptions(values)).toThrow(message);
  });
});
