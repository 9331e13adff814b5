/** Long jobs of one org, and the slots that a worker keeps for others. */
import { describe, expect, it } from 'vitest';
import { reserveOf } from '../../src/engine/work/slot-reserve.ts';
import type { Millrace } from '../../src/index.ts';
import { Gate, useBench } from '../library/fixture.ts';
import { until } from '../until.ts';

const bench = useBench();

const jobs = (type: string, count: number) => Array.from({ length: count }, () => ({ type, payload: {} }));

const running = async (millrace: Millrace): Promise<number> => (await millrace.search({ states: ['running'] })).totalCount;

const openOrg = async (): Promise<Millrace> => bench.open({ org: await bench.ledger.newOrg() });
const twoOrgs = async () => [await openOrg(), await openOrg()] as const;

describe('an org that is alone', () => {
  it('uses every slot', async () => {
    const gate = new Gate();
    const millrace = await bench.work({ alone: () => gate.pass() }, { concurrency: 10, reserve: 10 });
    await millrace.submitMany(jobs('alone', 20));
    await gate.reached(10);
    gate.open();
  });
});

describe('an org whose long jobs could fill a worker', () => {
  async function floodedWorker(type: string) {
    const [flood, guest] = await twoOrgs();
    const gate = new Gate();
    const worker = await bench.work({ [type]: () => gate.pass() }, { concurrency: 10, reserve: 10 });
    const { results } = await flood.submitMany(jobs(type, 30));
    await gate.reached(9);
    return { flood, guest, gate, worker, waiting: results[29]?.jobId as string };
  }

  it('leaves a slot to the job of another org, which starts before any of them has ended', async () => {
    const { flood, guest, gate } = await floodedWorker('long');
    const { jobId } = await guest.submit({ type: 'long', payload: {} });
    await gate.reached(10);
    expect(await guest.get(jobId)).toMatchObject({ state: 'running' });
    expect(await running(flood)).toBe(9);
    gate.open();
  });

  it('is named by explain as the reason why its next job waits', async () => {
    const { flood, guest, gate, waiting } = await floodedWorker('explained');
    const explained = async () => (await flood.explain(waiting))?.obstacles[0];
    await until('the share is the obstacle', async () => (await explained())?.code, 'ORG_SHARE');
    expect((await explained())?.message).toBe(
      'Its org runs jobs in 9 of the 10 slots for this job, which is its share: 1 more is kept free for orgs that run no job there.',
    );
    const [, second] = (await guest.submitMany(jobs('explained', 2))).results;
    await gate.reached(10);
    // All slots are busy. The guest has fewer than an equal share of them, so it only waits for a slot.
    expect((await guest.explain(second?.jobId as string))?.obstacles.map(({ code }) => code)).not.toContain('ORG_SHARE');
    expect((await explained())?.message).toBe(
      'Its org runs jobs in 9 of the 10 slots for this job, which is its share: another org waits for slots too.',
    );
    gate.open();
  });

  it('gets no more slots until the other org has as many', async () => {
    const [flood, guest] = await twoOrgs();
    const ends: (() => void)[] = [];
    const begun: string[] = [];
    const handler = (_: unknown, payload: unknown) =>
      new Promise<void>((resolve) => {
        begun.push((payload as { name: string }).name);
        ends.push(resolve);
      });
    await bench.work({ equal: handler }, { concurrency: 10, reserve: 10 });
    const named = (name: string) => jobs('equal', 30).map((job) => ({ ...job, payload: { name } }));
    await flood.submitMany(named('flood'));
    await until('the flood has nine slots', () => begun.length, 9);
    await guest.submitMany(named('guest'));
    await until('the guest has the tenth', () => begun.length, 10);
    // One slot stays free, the others go to the guest.
    for (const end of ends.splice(0, 5)) end();
    await until('four more have begun', () => begun.length, 14);
    expect(begun.slice(9)).toEqual(Array.from({ length: 5 }, () => 'guest'));
    for (const end of ends) end();
  });

  it('lets the other org in again and again: a slot that is left by its only job is for newcomers', async () => {
    const [flood, guest] = await twoOrgs();
    const ends: (() => void)[] = [];
    await bench.work({ brief: () => new Promise<void>((resolve) => void ends.push(resolve)) }, { concurrency: 10, reserve: 10 });
    await flood.submitMany(jobs('brief', 30));
    await until('the flood has nine slots', () => ends.length, 9);
    for (let n = 1; n <= 3; n++) {
      const [first, second] = (await guest.submitMany(jobs('brief', 2))).results;
      await until('the guest has the tenth slot', () => ends.length, 8 + 2 * n);
      ends.at(-1)?.();
      await until('the next job of the guest has it', () => ends.length, 9 + 2 * n);
      ends.at(-1)?.();
      for (const { jobId } of [first, second] as { jobId: string }[]) expect((await guest.waitFor(jobId)).state).toBe('completed');
    }
    for (const end of ends) end();
  });
});

describe('the size of a reserve', () => {
  it.each([
    [10, 10, 1],
    [64, 10, 6],
    [4, 10, 1],
    [3, 50, 0],
    [100, 0, 0],
  ])('of %i slots at %i percent is %i', (slots, percent, reserved) => {
    expect(reserveOf(slots, percent)).toBe(reserved);
  });
});
