import { describe, expect, it } from 'vitest';
import type { Priority } from '../../src/index.ts';
import { Gate, useBench } from '../library/fixture.ts';
import { until } from '../until.ts';

const bench = useBench();

/** A worker that runs one job at a time and notes the names of those it ran; what it finds was submitted before. */
async function oneByOne(type: string, options: { expected: number; queue?: string }) {
  const ran: string[] = [];
  const handler = (_: unknown, payload: unknown) => void ran.push((payload as { name: string }).name);
  await bench.work({ [type]: handler }, { concurrency: 1 });
  await until(
    `${options.expected} jobs have run`,
    () => ran.length,
    (count) => count >= options.expected,
  );
  return ran;
}

describe('jobs are claimed', () => {
  it('by priority, from CRITICAL to BULK, NORMAL where none is said [GM-3.01] [GM-3.02] [GM-3.03] [GM-3.04] [GM-3.05] [GM-3.06] [GM-3.07] [GM-3.09]', async () => {
    const millrace = await bench.open();
    const submit = (name: string, priority?: Priority) => millrace.submit({ type: 'ranked', payload: { name }, priority });
    for (const priority of ['BULK', 'LOW', 'NORMAL', 'HIGH', 'CRITICAL'] as const) await submit(priority, priority);
    await submit('unsaid');
    const ran = await oneByOne('ranked', { expected: 6 });
    expect(ran).toEqual(['CRITICAL', 'HIGH', 'NORMAL', 'unsaid', 'LOW', 'BULK']);
  });

  it('in the order of submission where priorities are equal [GM-3.08]', async () => {
    const millrace = await bench.open();
    const names = Array.from({ length: 40 }, (_, n) => `job ${n}`);
    await millrace.submitMany(names.slice(0, 20).map((name) => ({ type: 'queued', payload: { name } })));
    for (const name of names.slice(20)) await millrace.submit({ type: 'queued', payload: { name } });
    expect(await oneByOne('queued', { expected: 40 })).toEqual(names);
  });

  it('without interrupting one that runs for one that is more urgent [GM-3.10]', async () => {
    const gate = new Gate();
    const ran: string[] = [];
    const handler = async (context: { signal: AbortSignal }, payload: unknown) => {
      const { name } = payload as { name: string };
      if (name === 'first') await gate.pass();
      ran.push(context.signal.aborted ? `${name} interrupted` : name);
    };
    const millrace = await bench.work({ calm: handler }, { concurrency: 1 });
    const first = await millrace.submit({ type: 'calm', payload: { name: 'first' }, priority: 'BULK' });
    await gate.reached();
    const urgent = await millrace.submit({ type: 'calm', payload: { name: 'urgent' }, priority: 'CRITICAL' });
    expect(await millrace.get(first.jobId)).toMatchObject({ state: 'running', attemptsStarted: 1 });
    expect((await millrace.get(urgent.jobId))?.state).toBe('scheduled');
    gate.open();
    await millrace.waitFor(urgent.jobId);
    expect(ran).toEqual(['first', 'urgent']);
  });

  it('before later ones when they are retried: a retried job keeps its place', async () => {
    const ran: string[] = [];
    const millrace = await bench.open({ concurrency: 1 });
    let first = '';
    millrace.register({
      ...{ type: 'kept-place', backoff: { initialDelay: 0, maxDelay: 0 } },
      handler: async ({ attempt }, payload) => {
        const { name } = payload as { name: string };
        ran.push(name);
        if (name === 'a' && attempt === 1) throw new Error('again');
        if (name === 'b') await until('the first job no longer runs', async () => (await millrace.get(first))?.state !== 'running');
      },
    });
    const names = ['a', 'b', 'c', 'd'];
    const { results } = await millrace.submitMany(names.map((name) => ({ type: 'kept-place', payload: { name } })));
    first = results[0]?.jobId as string;
    await millrace.start();
    await until('all five jobs have run', () => ran.length, 5);
    expect(ran.filter((name) => name !== 'b')).toEqual(['a', 'a', 'c', 'd']);
  });
});

describe('a fair queue', () => {
  it('lets a second org in before the flood of the first has ended; a fifo queue does not', async () => {
    const orgs = [await bench.ledger.newOrg(), await bench.ledger.newOrg()];
    const [flood, guest] = await Promise.all(orgs.map((org) => bench.open({ org })));
    for (const order of ['fair', 'fifo'] as const) {
      const [queue, type] = [`q:${order}`, `turns-${order}`];
      await flood?.queues.configure(queue, { order });
      await guest?.queues.configure(queue, { order });
      const jobs = (name: string, count: number) => Array.from({ length: count }, () => ({ type, queue, payload: { name } }));
      await flood?.submitMany(jobs('flood', 60));
      await guest?.submitMany(jobs('guest', 5));
      const ran = await oneByOne(type, { expected: 65 });
      const last = ran.lastIndexOf('guest');
      if (order === 'fair') expect(last).toBeLessThan(20);
      else expect(last).toBe(64);
    }
  });
});

describe('queues of different order', () => {
  /** Jobs of two queues, the first flooded before the second gets a few: how many ran before the last of the few. */
  async function lastOfFew(flooded: string, few: string) {
    const type = `between-${flooded.slice(2)}-${few.slice(2)}`;
    const millrace = await bench.open();
    const jobs = (queue: string, count: number) => Array.from({ length: count }, () => ({ type, queue, payload: { name: queue } }));
    await millrace.submitMany(jobs(flooded, 60));
    await millrace.submitMany(jobs(few, 5));
    return (await oneByOne(type, { expected: 65 })).lastIndexOf(few);
  }

  it('take turns: neither keeps the other waiting', async () => {
    const millrace = await bench.open();
    await millrace.queues.configure('q:turns', { order: 'fair' });
    await millrace.queues.configure('q:line', { order: 'fifo' });
    expect(await lastOfFew('q:turns', 'q:line')).toBeLessThan(15);
    expect(await lastOfFew('q:line', 'q:turns')).toBeLessThan(15);
  });
});
