/** Several orgs wait in one queue, one of them with a flood of jobs. */
import { describe, expect, it } from 'vitest';
import type { Handler, JobContext, Millrace } from '../../src/index.ts';
import { Gate, useBench } from '../library/fixture.ts';
import { until } from '../until.ts';

const bench = useBench();

const openOrg = async (): Promise<Millrace> => bench.open({ org: await bench.ledger.newOrg() });

const jobs = (type: string, name: string, count: number) => Array.from({ length: count }, () => ({ type, payload: { name } }));

const nameOf = (payload: unknown): string => (payload as { name: string }).name;

describe('a queue without a configured order', () => {
  it('starts the job of another org long before the flood in front of it has run', async () => {
    const [flood, guest] = [await openOrg(), await openOrg()];
    for (let batch = 0; batch < 5; batch++) await flood.submitMany(jobs('flooded', 'flood', 1_000));
    const ran: string[] = [];
    const handler: Handler = async (_: JobContext, payload) => {
      ran.push(nameOf(payload));
      if (ran.length === 20) await guest.submit({ type: 'flooded', payload: { name: 'guest' } });
    };
    await bench.work({ flooded: handler }, { concurrency: 1 });
    await until('the job of the guest has run', () => ran.includes('guest'));
    // Some jobs were leased ahead, and the next look for other orgs comes after a few claims.
    expect(ran.indexOf('guest')).toBeLessThan(2_500);
  });

  it('gives each of three orgs a third of the slots, whichever of them came first', async () => {
    const orgs = [await openOrg(), await openOrg(), await openOrg()];
    for (const [index, org] of orgs.entries()) await org.submitMany(jobs('shared', `org ${index}`, 40));
    const gate = new Gate();
    const running = new Map<string, number>();
    const handler: Handler = (_, payload) => {
      running.set(nameOf(payload), (running.get(nameOf(payload)) ?? 0) + 1);
      return gate.pass();
    };
    const millrace = await bench.open({ concurrency: 9 });
    millrace.register({ type: 'shared', handler, concurrency: 100 });
    await millrace.start();
    await gate.reached(9);
    expect(Object.fromEntries(running)).toEqual({ 'org 0': 3, 'org 1': 3, 'org 2': 3 });
    gate.open();
  });

  it('serves orgs that submit evenly in the order of submission', async () => {
    const orgs = [await openOrg(), await openOrg(), await openOrg()];
    const names = Array.from({ length: 15 }, (_, n) => `job ${n}`);
    for (const [n, name] of names.entries()) await orgs[n % 3]?.submit({ type: 'even', payload: { name } });
    const ran: string[] = [];
    await bench.work({ even: (_, payload) => void ran.push(nameOf(payload)) }, { concurrency: 1 });
    await until('all jobs have run', () => ran.length, 15);
    expect(ran).toEqual(names);
  });

  it('still runs urgent jobs first, whichever org they belong to', async () => {
    const [flood, guest] = [await openOrg(), await openOrg()];
    await guest.submitMany(jobs('ranked', 'guest', 20));
    await flood.submitMany(jobs('ranked', 'urgent', 40).map((job) => ({ ...job, priority: 'HIGH' as const })));
    const ran: string[] = [];
    await bench.work({ ranked: (_, payload) => void ran.push(nameOf(payload)) }, { concurrency: 1 });
    await until('all jobs have run', () => ran.length, 60);
    expect(ran.indexOf('guest')).toBe(40);
  });
});

describe('the cap of a type', () => {
  it('is shared by the orgs that wait', async () => {
    const [flood, guest] = [await openOrg(), await openOrg()];
    await flood.submitMany(jobs('capped-turns', 'flood', 200));
    await guest.submitMany(jobs('capped-turns', 'guest', 2));
    const ran: string[] = [];
    const millrace = await bench.open({ concurrency: 8 });
    millrace.register({ type: 'capped-turns', concurrency: 2, handler: (_, payload) => void ran.push(nameOf(payload)) });
    await millrace.start();
    await until('the jobs of the guest have run', () => ran.filter((name) => name === 'guest').length, 2);
    expect(ran.lastIndexOf('guest')).toBeLessThan(20);
  });
});
