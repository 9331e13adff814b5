import { describe, expect, it } from 'vitest';
import type { Millrace } from '../../src/index.ts';
import { Gate, insist, useBench } from '../library/fixture.ts';

const bench = useBench();
const JOBS = 120;

describe('when the database goes away and comes back', () => {
  it('jobs that were accepted complete, each once, and no worker gives up [GM-7.01] [GM-7.02]', async () => {
    const gate = new Gate();
    const handler = async (_: unknown, payload: unknown) => {
      const { n } = payload as { n: number };
      if (n % 40 === 0) await gate.pass();
      return { square: n * n };
    };
    const errors: string[] = [];
    const [one, two] = await Promise.all([1, 2].map(() => bench.work({ square: handler }, { defaults: { maxAttempts: 20 } })));
    for (const millrace of [one, two]) millrace?.on('error', ({ where }) => errors.push(where));
    const submitting = Array.from({ length: JOBS }, (_, n) => {
      const submission = { type: 'square', payload: { n }, idempotencyKey: `n-${n}` };
      return insist((n % 2 === 0 ? one : two) as Millrace, submission);
    });
    for (let cuts = 0; cuts < 5; cuts++) await bench.cut();
    await gate.reached(3);
    await bench.cut();
    gate.open();
    const ids = await Promise.all(submitting);
    expect(new Set(ids).size).toBe(JOBS);
    for (const [n, jobId] of ids.entries()) {
      const job = await settled(one as Millrace, jobId);
      expect(job).toMatchObject({ state: 'completed', result: { output: { square: n * n } } });
    }
    expect(errors.length).toBeGreaterThan(0);
    const later = await (one as Millrace).submit({ type: 'square', payload: { n: 7 } });
    expect((await settled(one as Millrace, later.jobId)).result?.output).toEqual({ square: 49 });
    expect(await bench.violations()).toEqual([]);
  });
});

async function settled(millrace: Millrace, jobId: string) {
  for (;;) {
    try {
      return await millrace.waitFor(jobId, { timeout: '30s' });
    } catch (error) {
      if ((error as { code?: string }).code === 'TIMED_OUT') throw error;
    }
  }
}
