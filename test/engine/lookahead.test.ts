/** A job is `running` while its handler runs, and at no other time: jobs that were fetched ahead are leased, not started. */
import { describe, expect, it } from 'vitest';
import { Lookahead } from '../../src/engine/lookahead.ts';
import { Gate, until, useBench } from '../library/fixture.ts';

const bench = useBench();
const SLOTS = 4;

/** Short jobs first, so that the worker claims ahead, then jobs that wait at a gate. */
async function shortThenLong() {
  const org = await bench.ledger.newOrg();
  const gate = new Gate();
  let handled = 0;
  let most = 0;
  let running = 0;
  const handler = async (_: unknown, payload: unknown) => {
    most = Math.max(most, ++running);
    handled++;
    if ((payload as { long: boolean }).long) await gate.pass();
    running--;
  };
  const millrace = await bench.work({ mixed: handler }, { org, concurrency: SLOTS });
  const short = Array.from({ length: 3_000 }, () => ({ type: 'mixed', payload: { long: false } }));
  const long = Array.from({ length: 400 }, () => ({ type: 'mixed', payload: { long: true }, timeout: '2s' }));
  for (let start = 0; start < short.length; start += 1_000)
    await millrace.submitMany(short.slice(start, start + 1_000));
  await millrace.submitMany(long);
  return { millrace, org, gate, handled: () => handled, most: () => most, short: short.length };
}

const counted = async (org: string, where: string): Promise<number> => {
  const text = `SELECT count(*)::int4 AS n FROM millrace.jobs j WHERE j.org_id = $1 AND ${where}`;
  return (await bench.ledger.db.maintenance.query(text, [org])).rows[0].n;
};

describe('jobs that a worker fetches ahead of its slots', () => {
  it('are not running before their handler is, and go back when no slot becomes free', async () => {
    const { org, gate, handled, most, short } = await shortThenLong();
    let watched = true;
    const seen: number[] = [];
    const watching = (async () => {
      while (watched) seen.push(await counted(org, `j.state = 'running'`));
    })();
    await gate.reached(SLOTS);
    // Those in its line are nobody's again, though the worker lives and its slots are taken.
    await until(async () => (await counted(org, `j.state = 'scheduled' AND j.worker_id IS NOT NULL`)) === 0);
    watched = false;
    await watching;
    expect(handled()).toBe(short + SLOTS);
    expect(await counted(org, `j.state = 'running'`)).toBe(SLOTS);
    expect(most()).toBe(SLOTS);
    expect(Math.max(...seen)).toBeLessThanOrEqual(SLOTS + 1_000);
    gate.open();
    await until(async () => (await counted(org, `j.state = 'completed'`)) === short + 400);
    expect(await counted(org, 'j.attempts_started <> 1')).toBe(0);
    expect(await bench.violations()).toEqual([]);
  });
});

describe('how far a worker looks ahead', () => {
  const looking = ({ slots, ended, inMs }: { slots: number; ended: number; inMs: number }): number => {
    const lookahead = new Lookahead(slots);
    const startMs = performance.now();
    lookahead.observe({ wasFull: true, nowMs: startMs + 1_000 });
    for (let i = 0; i < ended; i++) lookahead.ended();
    lookahead.observe({ wasFull: true, nowMs: startMs + 1_000 + inMs });
    return lookahead.jobs;
  };

  it('follows the rate at which jobs end', () => {
    expect(looking({ slots: 64, ended: 100, inMs: 10 })).toBe(200);
    expect(looking({ slots: 64, ended: 10_000, inMs: 10 })).toBe(1_000);
  });

  it('is not at all where handlers take long', () => {
    expect(looking({ slots: 64, ended: 64, inMs: 100 })).toBe(0);
  });

  it('ends with a claim that found less than it asked for, and for a while after jobs waited in vain', () => {
    const lookahead = new Lookahead(1);
    const startMs = performance.now();
    const observe = (atMs: number, wasFull = true) => {
      for (let i = 0; i < 100; i++) lookahead.ended();
      lookahead.observe({ wasFull, nowMs: startMs + atMs });
      return lookahead.jobs;
    };
    observe(1_000);
    expect(observe(1_010)).toBe(200);
    expect(observe(1_020, false)).toBe(0);
    expect(observe(1_030)).toBe(200);
    lookahead.overshot(startMs + 1_030);
    expect(observe(1_040)).toBe(0);
    expect(observe(2_100)).toBeGreaterThan(0);
  });
});
