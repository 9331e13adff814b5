import { describe, expect, it } from 'vitest';
import type { Millrace } from '../../src/index.ts';
import { insist, pathOf, useBench } from '../library/fixture.ts';
import { until } from '../until.ts';
import { WorkerProcess } from './worker-process.ts';

const bench = useBench();
const rescue = {
  type: 'patient',
  handler: ({ leaseToken }: { leaseToken: number }) => ({ by: 'rescuer', token: leaseToken }),
};

async function begun() {
  const org = await bench.ledger.newOrg();
  const child = await WorkerProcess.start({ url: bench.ledger.db.url, org });
  const millrace = await bench.open({ org });
  const { jobId } = await millrace.submit({ type: 'patient', payload: {} });
  await child.says(`began ${jobId} 1`);
  return { child, millrace, jobId };
}

/** When its first attempt ended, for this reason. */
async function leftAt(millrace: Millrace, jobId: string, reason: string): Promise<number> {
  const history = (await millrace.get(jobId, { includeHistory: true }))?.history ?? [];
  return Number(history.find((event) => event.from === 'running' && event.reason === reason)?.at);
}

describe('a worker process that dies', () => {
  it('by kill -9 leaves its job to another worker, which completes it [GM-4.02] [GM-4.07] [GM-4.12] [GM-7.01] [GM-7.02] [GM-8.06]', async () => {
    const { child, millrace, jobId } = await begun();
    await child.kill();
    millrace.register(rescue);
    await millrace.start();
    const job = await millrace.waitFor(jobId, { timeout: '60s' });
    expect(job).toMatchObject({
      state: 'completed',
      attemptsStarted: 2,
      result: { output: { by: 'rescuer' }, attempt: 2 },
    });
    expect(await pathOf(millrace, jobId)).toEqual([
      'pending>scheduled:submitted',
      'scheduled>running:started',
      'running>retrying:worker_lost',
      'retrying>scheduled:worker_lost',
      'scheduled>running:started',
      'running>completed:succeeded',
    ]);
    expect(await bench.violations()).toEqual([]);
  });

  it('is counted: a job whose last attempt died with its worker is dead-lettered [GM-8.06] [GM-5.11]', async () => {
    const org = await bench.ledger.newOrg();
    const child = await WorkerProcess.start({ url: bench.ledger.db.url, org });
    const millrace = await bench.open({ org });
    const { jobId } = await millrace.submit({ type: 'patient', payload: {}, maxAttempts: 1 });
    await child.says(`began ${jobId} 1`);
    await child.kill();
    millrace.register(rescue);
    await millrace.start();
    const job = await millrace.waitFor(jobId, { timeout: '60s' });
    expect(job).toMatchObject({
      state: 'dead_letter',
      attemptsStarted: 1,
      lastFailure: { category: 'SYSTEM', code: 'WORKER_LOST' },
    });
  });
});

describe('a worker process that was frozen', () => {
  it('past its lease finds its job done by another, and its own completion refused [GM-4.07] [GM-7.02]', async () => {
    const { child, millrace, jobId } = await begun();
    child.signal('SIGSTOP');
    millrace.register(rescue);
    await millrace.start();
    const finished = await millrace.waitFor(jobId, { timeout: '60s' });
    child.release();
    child.signal('SIGCONT');
    await child.says(`ended ${jobId} lost`);
    const after = await millrace.get(jobId);
    expect(after?.result).toEqual(finished.result);
    expect(after?.result?.output).toMatchObject({ by: 'rescuer' });
    const row = await bench.ledger.rowOf({ orgId: after?.orgId as string, id: jobId });
    expect(after?.result?.output).toEqual({ by: 'rescuer', token: Number(row.lease_seq) });
    expect(child.said).not.toContain(`ended ${jobId} completed`);
    expect(await bench.violations()).toEqual([]);
    expect(child.isAlive).toBe(true);
  });
});

describe('a handler that blocks its process', () => {
  it('costs its neighbour no lease, ends as TIMEOUT although it never returns, and is retried elsewhere [GM-4.05] [GM-4.06]', async () => {
    const { child, millrace, jobId: neighbour } = await begun();
    // The thread that beats for a blocked process must have outlived the loss of its connection.
    await bench.cut();
    const blocking = await insist(millrace, { type: 'blocking', payload: {}, idempotencyKey: 'blocking' });
    await child.says(`began ${blocking} 1`);
    millrace.register(rescue);
    millrace.register({ type: 'blocking', handler: ({ attempt }) => ({ by: 'rescuer', attempt }) });
    await millrace.start();
    const job = await millrace.waitFor(blocking, { timeout: '60s' });
    expect(job).toMatchObject({ state: 'completed', result: { output: { by: 'rescuer', attempt: 2 } } });
    expect(await pathOf(millrace, blocking)).toContain('running>retrying:timed_out');
    // The timeout of the blocked handler is longer than the lease of its neighbour, which keeps its job until then.
    expect((await millrace.waitFor(neighbour, { timeout: '60s' })).attemptsStarted).toBe(2);
    const timedOutAt = await leftAt(millrace, blocking, 'timed_out');
    expect(await leftAt(millrace, neighbour, 'worker_lost')).toBeGreaterThanOrEqual(timedOutAt);
    expect(await child.ended).toBe('SIGKILL');
    await until('the tables agree', () => bench.violations(), []);
  });
});
