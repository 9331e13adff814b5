import { describe, expect, it } from 'vitest';
import type { Handler, Millrace } from '../../src/index.ts';
import { Gate, useBench } from '../library/fixture.ts';
import { until } from '../until.ts';

const bench = useBench();

/** Two workers at once, whose handlers count how many run side by side. */
async function twoWorkers(type: string, options: { org?: string; concurrency?: number } = {}) {
  const seen = { now: 0, most: 0, done: 0 };
  const handler: Handler = async () => {
    seen.most = Math.max(seen.most, ++seen.now);
    await new Promise((resolve) => setImmediate(resolve));
    seen.now--;
    seen.done++;
  };
  const millraces = await Promise.all([1, 2].map(() => bench.open({ org: options.org, concurrency: 8 })));
  for (const millrace of millraces) millrace.register({ type, handler, concurrency: options.concurrency });
  return { seen, millraces, first: millraces[0] as Millrace };
}

describe('the cap of a type', () => {
  it('is never exceeded by two processes together [GA-5.05]', async () => {
    const { seen, millraces, first } = await twoWorkers('capped', { concurrency: 3 });
    await first.submitMany(Array.from({ length: 12 }, () => ({ type: 'capped', payload: {} })));
    await Promise.all(millraces.map((millrace) => millrace.start()));
    await until('all twelve jobs have run', () => seen.done, 12);
    expect(seen.most).toBeLessThanOrEqual(3);
    expect(seen.most).toBeGreaterThan(0);
  });

  it('can be turned and lifted while workers run', async () => {
    const gate = new Gate();
    const millrace = await bench.open({ concurrency: 10 });
    millrace.register({ type: 'turned', handler: () => gate.pass(), concurrency: 1 });
    await millrace.start();
    await millrace.submitMany(Array.from({ length: 6 }, () => ({ type: 'turned', payload: {} })));
    await gate.reached(1);
    await millrace.queues.capType('turned', 3);
    await gate.reached(3);
    expect((await millrace.search({ types: ['turned'], states: ['running'] })).totalCount).toBe(3);
    await millrace.queues.capType('turned', null);
    await gate.reached(6);
    gate.open();
  });
});

describe('the cap of an org', () => {
  it('is never exceeded by two processes together, and holds no other org back', async () => {
    const [capped, free] = [await bench.ledger.newOrg(), await bench.ledger.newOrg()];
    const { seen, millraces, first } = await twoWorkers('org-capped', { org: capped });
    await first.queues.capOrg(capped, 2);
    await first.submitMany(Array.from({ length: 8 }, () => ({ type: 'org-capped', payload: {} })));
    await Promise.all(millraces.map((millrace) => millrace.start()));
    await until('all eight jobs have run', () => seen.done, 8);
    expect(seen.most).toBeLessThanOrEqual(2);
    const gate = new Gate();
    const other = await bench.work({ both: () => gate.pass() }, { org: free, concurrency: 10 });
    const jobs = Array.from({ length: 5 }, () => ({ type: 'both', payload: {} }));
    await first.submitMany(jobs);
    await other.submitMany(jobs);
    await gate.reached(7);
    const running = await first.search({ types: ['both'], states: ['running'] });
    expect(running.totalCount).toBe(2);
    gate.open();
    await first.queues.capOrg(capped, null);
  });
});

describe('a pause', () => {
  it('of a queue keeps its jobs until it is resumed, and lets others run', async () => {
    const ran: string[] = [];
    const handler: Handler = (_, payload) => void ran.push((payload as { in: string }).in);
    const millrace = await bench.work({ 'paused-queue': handler });
    await millrace.queues.pause('q:resting');
    const resting = await millrace.submit({ type: 'paused-queue', queue: 'q:resting', payload: { in: 'resting' } });
    const awake = await millrace.submit({ type: 'paused-queue', payload: { in: 'default' } });
    await millrace.waitFor(awake.jobId);
    expect(ran).toEqual(['default']);
    expect((await millrace.queues.list()).find(({ name }) => name === 'q:resting')?.pausedAt).toBeInstanceOf(Date);
    await millrace.queues.resume('q:resting');
    await millrace.waitFor(resting.jobId);
    expect(ran).toEqual(['default', 'resting']);
  });

  it('of a type keeps its jobs, in every process and across a restart, until it is resumed', async () => {
    const first = await bench.open();
    await first.queues.pauseType('resting');
    const ran: string[] = [];
    const millrace = await bench.work({ resting: () => void ran.push('resting'), awake: () => void ran.push('awake') });
    const { jobId } = await millrace.submit({ type: 'resting', payload: {} });
    await millrace.waitFor((await millrace.submit({ type: 'awake', payload: {} })).jobId);
    expect(ran).toEqual(['awake']);
    await first.queues.resumeType('resting');
    await millrace.waitFor(jobId);
    expect(ran).toEqual(['awake', 'resting']);
  });
});
