import { describe, expect, it } from 'vitest';
import { LeaseLostError } from '../../src/index.ts';
import { allEnded, Gate, pathOf, untilAborted, useBench } from '../library/fixture.ts';
import { until } from '../until.ts';

const bench = useBench();

describe('drain', () => {
  it('lets running jobs finish within the grace and claims no other', async () => {
    const gate = new Gate();
    const millrace = await bench.work({ slow: () => gate.pass().then(() => 'finished') }, { concurrency: 1 });
    const first = await millrace.submit({ type: 'slow', payload: {} });
    await gate.reached();
    const second = await millrace.submit({ type: 'slow', payload: {} });
    const drained = millrace.drain({ grace: '30s' });
    const third = await millrace.submit({ type: 'slow', payload: {} });
    gate.open();
    await drained;
    expect(await millrace.get(first.jobId)).toMatchObject({ state: 'completed', result: { output: 'finished' } });
    for (const { jobId } of [second, third]) expect(await millrace.get(jobId)).toMatchObject({ state: 'scheduled', attemptsStarted: 0 });
    expect(gate.arrived).toBe(1);
  });

  it('without grace gives running jobs back at once; it burns no attempt, and another worker completes them', async () => {
    let reason: unknown;
    const began = new Gate();
    const first = await bench.work({
      given: ({ signal }) => {
        void began.pass();
        return untilAborted(signal).catch((error) => {
          reason = error;
          throw error;
        });
      },
    });
    const { jobId } = await first.submit({ type: 'given', payload: {}, maxAttempts: 1 });
    await began.reached();
    await first.drain({ grace: 0 });
    expect(await first.get(jobId)).toMatchObject({ state: 'scheduled' });
    expect(reason).toBeInstanceOf(LeaseLostError);
    const second = await bench.work({ given: () => 'elsewhere' });
    expect(await second.waitFor(jobId)).toMatchObject({ state: 'completed', result: { output: 'elsewhere' } });
    expect(await pathOf(second, jobId)).toEqual([
      'pending>scheduled:submitted',
      'scheduled>running:started',
      'running>retrying:released',
      'retrying>scheduled:released',
      'scheduled>running:started',
      'running>completed:succeeded',
    ]);
    expect(await bench.violations()).toEqual([]);
  });

  it('gives back what a handler does not finish in time, and refuses its late result', async () => {
    const gate = new Gate();
    const millrace = await bench.work({ late: () => gate.pass().then(() => 'late') });
    const { jobId } = await millrace.submit({ type: 'late', payload: {} });
    await gate.reached();
    await millrace.drain({ grace: '50ms' });
    gate.open();
    const other = await bench.work({ late: ({ attempt }) => `attempt ${attempt}` });
    expect((await other.waitFor(jobId)).result?.output).toBe('attempt 2');
  });

  it('gives back jobs that were started ahead of a free slot', async () => {
    const gate = new Gate();
    const millrace = await bench.work({ ahead: () => (gate.arrived === 0 ? gate.pass() : null) }, { concurrency: 2 });
    await millrace.submitMany(Array.from({ length: 300 }, () => ({ type: 'ahead', payload: {} })));
    await gate.reached();
    await millrace.drain({ grace: 0 });
    const { totalCount } = await millrace.search({ types: ['ahead'], states: ['running'] });
    expect(totalCount).toBe(0);
    gate.open();
    const other = await bench.work({ ahead: () => null }, { concurrency: 20 });
    const { jobs } = await other.search({ types: ['ahead'] }, { limit: 1_000 });
    const ended = await allEnded(
      other,
      jobs.map(({ id }) => id),
    );
    for (const { state } of ended) expect(state).toBe('completed');
    expect(await bench.violations()).toEqual([]);
  });

  it('may be followed by a new start, and asked for twice', async () => {
    const millrace = await bench.work({ again: () => 'again' });
    await Promise.all([millrace.drain(), millrace.drain()]);
    const { jobId } = await millrace.submit({ type: 'again', payload: {} });
    await millrace.start();
    expect((await millrace.waitFor(jobId)).state).toBe('completed');
  });

  it('is part of close, after which nothing of the worker is left', async () => {
    const millrace = await bench.work({ closing: () => 1 }, { name: 'closing-worker' });
    const { jobId } = await millrace.submit({ type: 'closing', payload: {} });
    await millrace.waitFor(jobId);
    await millrace.close();
    await millrace.close();
    const { rows } = await bench.ledger.db.api.query(`SELECT stopped_at FROM millrace.workers WHERE name = 'closing-worker'`);
    expect(rows.map((row) => row.stopped_at)).toEqual([expect.any(Date)]);
  });
});

describe('a worker that the ledger has given up', () => {
  it('loses its jobs, registers again and works on', async () => {
    const began = new Gate();
    const errors: unknown[] = [];
    const millrace = await bench.work(
      {
        given: ({ attempt, signal }) => {
          void began.pass();
          return attempt === 1 ? untilAborted(signal) : 'again';
        },
      },
      { name: 'phoenix', defaults: { leaseMs: 1_000 } },
    );
    millrace.on('error', ({ error }) => errors.push(error));
    const { jobId } = await millrace.submit({ type: 'given', payload: {} });
    await began.reached();
    await bench.ledger.db.api.query(`UPDATE millrace.workers SET stopped_at = millrace.clock() WHERE name = 'phoenix'`);
    expect((await millrace.waitFor(jobId, { timeout: '30s' })).result?.output).toBe('again');
    // Its job may be done again before it hears that it was given up.
    await until('the worker has a new row and the old one is stopped', async () => {
      const { rows } = await bench.ledger.db.api.query(`SELECT stopped_at FROM millrace.workers WHERE name = 'phoenix' ORDER BY id`);
      return rows.map((row) => row.stopped_at !== null).join() === 'true,false';
    });
    expect(errors).toEqual([]);
  });
});
