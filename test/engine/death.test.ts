import { describe, expect, it } from 'vitest';
import { EventHub } from '../../src/engine/events.ts';
import { Rescuer } from '../../src/engine/upkeep/rescuer.ts';
import type { Millrace } from '../../src/index.ts';
import { pathOf, useBench } from '../library/fixture.ts';
import { until } from '../until.ts';
import { WorkerProcess } from './worker-process.ts';

const bench = useBench();
const sql = (text: string, values: unknown[] = []) => bench.ledger.db.api.query(text, values);

/** A job with the default lease, running in a process of its own. */
async function begun() {
  const org = await bench.ledger.newOrg();
  const child = await WorkerProcess.start({ url: bench.ledger.db.url, org });
  const millrace = await bench.open({ org });
  const { jobId } = await millrace.submit({ type: 'steady', payload: {} });
  await child.says(`began ${jobId} 1`);
  return { child, millrace, jobId };
}

async function workHere(millrace: Millrace): Promise<void> {
  millrace.register({ type: 'steady', handler: ({ attempt }) => ({ by: 'rescuer', attempt }) });
  await millrace.start();
}

const holderOf = async (jobId: string): Promise<number> =>
  (await sql('SELECT worker_id FROM millrace.jobs WHERE id = $1', [jobId])).rows[0].worker_id;

/**
 * Has the server end the session that holds the lock of a worker, and waits until the worker holds another. The rescuer looks while the
 * lock may be free, and when it is held again.
 */
async function cutHeartbeat(workerId: number, rescuer: Rescuer): Promise<void> {
  const lock = async () =>
    (
      await sql(
        `SELECT w.lock_no, l.pid FROM millrace.workers w
         LEFT JOIN pg_locks l ON l.locktype = 'advisory' AND l.objsubid = 2 AND l.objid = w.lock_no::int8
           AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) WHERE w.id = $1`,
        [workerId],
      )
    ).rows[0] as { lock_no: number; pid: number | null };
  const before = await lock();
  await sql('SELECT pg_terminate_backend($1)', [before.pid]);
  await rescuer.round();
  await until('the worker holds a new lock', async () => {
    const now = await lock();
    return now.lock_no !== before.lock_no && now.pid !== null;
  });
  await rescuer.round();
}

describe('a worker process with the default lease', () => {
  it('that is killed leaves its job to another long before the lease ends [GM-4.07] [GM-8.06]', async () => {
    const { child, millrace, jobId } = await begun();
    await workHere(millrace);
    await child.kill();
    expect(await millrace.waitFor(jobId, { timeout: '60s' })).toMatchObject({
      ...{ state: 'completed', attemptsStarted: 2, result: { output: { by: 'rescuer', attempt: 2 } } },
    });
    expect(await pathOf(millrace, jobId)).toContain('running>retrying:worker_lost');
    expect(await bench.violations()).toEqual([]);
  });

  it('keeps its job while the session that holds its lock is cut again and again', async () => {
    const { child, millrace, jobId } = await begun();
    const { db: database, policies } = bench.ledger;
    // Its rounds are the test's: one that runs by itself would give up a child that a busy machine stops for two seconds.
    const rescuer = new Rescuer({ database, policies, events: new EventHub(), onRescued: () => {}, onReleased: () => {} });
    const workerId = await holderOf(jobId);
    for (let cuts = 0; cuts < 10; cuts++) await cutHeartbeat(workerId, rescuer);
    child.release();
    expect(await millrace.waitFor(jobId, { timeout: '60s' })).toMatchObject({
      ...{ state: 'completed', attemptsStarted: 1, result: { output: { by: 'child' } } },
    });
  });

  it('has one session for its heartbeat', async () => {
    const { child } = await begun();
    const sessions = `SELECT count(*)::int4 AS n FROM pg_stat_activity
      WHERE datname = current_database() AND application_name = 'millrace heartbeat'`;
    await until('the heartbeat has its session', async () => (await sql(sessions)).rows[0].n, 1);
    await child.kill();
    await until('the session has ended', async () => (await sql(sessions)).rows[0].n, 0);
  });
});
