import { describe, expect, it, onTestFinished } from 'vitest';
import { LeaseLostError } from '../../src/index.ts';
import { stopWorker } from '../../src/ledger/attempts/workers.ts';
import { DatabaseRoad } from '../ledger/database-road.ts';
import { pathOf, useBench } from '../library/fixture.ts';
import { LoneWorker } from './lone-worker.ts';

const bench = useBench();
const PATIENT = { type: 'patient', payload: {} };

/** A worker on a road to the database that can be closed, and a caller that has another. */
async function onTheRoad() {
  const road = new DatabaseRoad(bench.ledger.db.url);
  await road.open();
  onTestFinished(() => road.close());
  // Longer than a busy machine stops a process: only the closed road may cost the lease.
  const worker = await LoneWorker.start({ url: road.url, lease: '10s' });
  return { road, worker, ...(await caller()) };
}

async function caller() {
  const org = await bench.ledger.newOrg();
  return { org, millrace: await bench.open({ org }) };
}

describe('a worker whose heartbeat cannot be written', () => {
  it('stops before its lease ends; others complete its jobs, and its late outcomes are refused [GM-4.07] [GM-7.01] [GM-7.02]', async () => {
    const { road, worker, org, millrace } = await onTheRoad();
    const { jobId: unfinished } = await millrace.submit(PATIENT);
    const { jobId: unwritten } = await millrace.submit(PATIENT);
    const [stopped, ended] = await Promise.all([worker.began(unfinished), worker.began(unwritten)]);
    await road.close();
    ended.end({ by: 'silent' });
    expect(await stopped.stopped).toBeInstanceOf(LeaseLostError);
    const other = await bench.work({ patient: () => ({ by: 'other' }) }, { org });
    for (const jobId of [unfinished, unwritten])
      expect(await other.waitFor(jobId, { timeout: '60s' })).toMatchObject({
        ...{ state: 'completed', attemptsStarted: 2 },
        result: { output: { by: 'other' } },
      });
    const paths = [await pathOf(millrace, unfinished), await pathOf(millrace, unwritten)];
    stopped.end({ by: 'silent' });
    await road.open();
    await Promise.all([worker.said('lost', unfinished), worker.said('lost', unwritten)]);
    for (const jobId of [unfinished, unwritten]) expect((await millrace.get(jobId))?.result?.output).toEqual({ by: 'other' });
    expect([await pathOf(millrace, unfinished), await pathOf(millrace, unwritten)]).toEqual(paths);
    expect(await bench.violations()).toEqual([]);
  });

  it('gives its job back if it is still its own: a rescuer never takes one from a worker that beats again [GM-4.07] [GM-7.01]', async () => {
    const worker = await LoneWorker.start({ url: bench.ledger.db.url, lease: '2s' });
    const { millrace } = await caller();
    const { jobId } = await millrace.submit({ ...PATIENT, maxAttempts: 1 });
    const attempt = await worker.began(jobId);
    // Everything else gets through, so nothing but the silence makes the worker doubt what it holds.
    const release = await locking('SELECT FROM millrace.workers WHERE id = $1 FOR NO KEY UPDATE', worker.id);
    expect(await attempt.stopped).toBeInstanceOf(LeaseLostError);
    await release();
    expect(await millrace.waitFor(jobId, { timeout: '60s' })).toMatchObject({
      ...{ state: 'completed', result: { output: 'again', attempt: 2 } },
    });
    attempt.end('late');
    expect(await pathOf(millrace, jobId)).toContain('running>retrying:released');
    expect(await bench.violations()).toEqual([]);
  });
});

describe('a worker that the ledger has given up', () => {
  it('leaves its claims to the rescuer, also while its last results are on their way [GM-4.07] [GM-7.01] [GM-7.02]', async () => {
    const worker = await LoneWorker.start({ url: bench.ledger.db.url, lease: '5m' });
    const { org, millrace } = await caller();
    // One after the other: each has a claim of its own.
    const jobs: string[] = [];
    for (let n = 0; n < 3; n++) {
      jobs.push((await millrace.submit(PATIENT)).jobId);
      await worker.began(jobs[n] as string);
    }
    const [held = '', locked = '', queued = ''] = jobs;
    const attempt = await worker.began(held);
    const release = await locking('SELECT FROM millrace.jobs WHERE id = $1 FOR UPDATE', locked);
    (await worker.began(locked)).end('written');
    await bench.ledger.untilBlocked();
    // Written behind the one that is locked, with whatever claims the worker deems closed by then.
    (await worker.began(queued)).end('written');
    await stopWorker(bench.ledger.db.workers, worker.id);
    expect(await attempt.stopped).toBeInstanceOf(LeaseLostError);
    await release();
    await Promise.all([worker.said('completed', locked), worker.said('completed', queued)]);
    await worker.drain();
    const other = await bench.work({ patient: () => 'rescued' }, { org });
    expect(await other.waitFor(held, { timeout: '60s' })).toMatchObject({
      ...{ state: 'completed', attemptsStarted: 2, result: { output: 'rescued' } },
    });
    attempt.end('late');
    for (const jobId of [locked, queued])
      expect(await millrace.get(jobId)).toMatchObject({ attemptsStarted: 1, result: { output: 'written' } });
    expect(await bench.violations()).toEqual([]);
  });
});

/** Holds a row until the answer is called. */
async function locking(text: string, id: string | number): Promise<() => Promise<unknown>> {
  const client = await bench.connect();
  await client.query('BEGIN');
  await client.query(text, [id]);
  return () => client.query('COMMIT');
}
