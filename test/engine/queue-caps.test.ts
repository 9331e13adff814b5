import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import type { Handler, Millrace } from '../../src/index.ts';
import { Gate, useBench } from '../library/fixture.ts';
import { until } from '../until.ts';
import { WorkerProcess } from './worker-process.ts';

const bench = useBench();

const SCRIPT = fileURLToPath(new URL('./fixtures/queue-worker.ts', import.meta.url));

const jobs = (count: number, job: { type: string; queue: string }) => Array.from({ length: count }, () => ({ payload: {}, ...job }));

/** Every start (+1) and every end of a running job (-1) of the queue, in the order in which the ledger did them. */
async function changesIn(queue: string): Promise<{ change: number; at: Date }[]> {
  const { rows } = await bench.ledger.db.api.query(
    `SELECT CASE WHEN e.to_state = 'running' THEN 1 ELSE -1 END AS change, e.at FROM millrace.events e
     JOIN millrace.jobs j ON j.org_id = e.org_id AND j.seq = e.job_seq
     WHERE j.queue = $1 AND (e.to_state = 'running' OR e.from_state = 'running') ORDER BY e.at, change`,
    [queue],
  );
  return rows;
}

async function mostAtOnce(queue: string): Promise<number> {
  let [now, most] = [0, 0];
  for (const { change } of await changesIn(queue)) {
    now += change;
    most = Math.max(most, now);
  }
  return most;
}

const completedIn = async (queue: string): Promise<number> =>
  (await bench.ledger.db.api.query(`SELECT count(*)::int4 AS n FROM millrace.jobs WHERE queue = $1 AND state = 'completed'`, [queue]))
    .rows[0].n;

describe('the concurrency of a queue', () => {
  it('is never exceeded by several processes, one of which is killed [C56] [C62]', async () => {
    const org = await bench.ledger.newOrg();
    const millrace = await bench.open({ org });
    await millrace.queues.configure('q:three', { concurrency: 3 });
    await millrace.submitMany(jobs(60, { type: 'brief', queue: 'q:three' }));
    await millrace.submitMany(jobs(20, { type: 'brief', queue: 'q:free' }));
    const params = { script: SCRIPT, url: bench.ledger.db.url, org };
    const workers = await Promise.all([WorkerProcess.start(params), WorkerProcess.start(params), WorkerProcess.start(params)]);
    const busy = () => workers.find(({ said }) => said.filter((line) => line === 'ran').length > 4);
    await until('one of them runs jobs', () => busy() !== undefined);
    await busy()?.kill();
    await until('all jobs have run', () => completedIn('q:three'), 60);
    await until('those of the other queue have run too', () => completedIn('q:free'), 20);
    expect(await mostAtOnce('q:three')).toBe(3);
  });

  it('can be set and lifted while workers run, and explain names it', async () => {
    const gate = new Gate();
    const org = await bench.ledger.newOrg();
    const millrace = await bench.work({ turned: () => gate.pass() }, { concurrency: 9, org });
    const other = await bench.open({ org });
    await millrace.queues.configure('q:turned', { concurrency: 1 });
    const { results } = await millrace.submitMany(jobs(6, { type: 'turned', queue: 'q:turned' }));
    await gate.reached(1);
    const ids = results.map(({ jobId }) => jobId as string);
    const waiting = async () => {
      const all = await Promise.all(ids.map((id) => millrace.explain(id)));
      return all.filter((each) => each?.state === 'scheduled');
    };
    expect((await waiting())[0]?.obstacles[0]).toEqual({
      code: 'QUEUE_CAP',
      message: 'Queue q:turned runs as many jobs at the same time as it may (1).',
    });
    await other.queues.configure('q:turned', { concurrency: 3 });
    await gate.reached(3);
    expect(await waiting()).toHaveLength(3);
    await other.queues.configure('q:turned', { concurrency: null });
    await gate.reached(6);
    gate.open();
  });

  it('holds for jobs that start with their submission', async () => {
    const gate = new Gate();
    const millrace = await bench.work({ born: () => gate.pass() }, { concurrency: 8, org: await bench.ledger.newOrg() });
    await millrace.queues.configure('q:born', { concurrency: 2 });
    for (const job of jobs(5, { type: 'born', queue: 'q:born' })) await millrace.submit(job);
    await gate.reached(2);
    const searched = await millrace.search({ types: ['born'], states: ['running'] });
    expect(searched.totalCount).toBe(2);
    gate.open();
    await until('all have run', () => completedIn('q:born'), 5);
    expect(await mostAtOnce('q:born')).toBe(2);
  });

  it('holds together with the cap of a type, and lets a paused queue rest', async () => {
    const org = await bench.ledger.newOrg();
    const workers = await Promise.all([1, 2].map(() => bench.open({ org, concurrency: 8 })));
    const handler: Handler = () => new Promise((resolve) => setImmediate(resolve));
    for (const worker of workers) worker.register({ type: 'both', handler, concurrency: 4 });
    const [first] = workers as [Millrace, Millrace];
    await first.queues.configure('q:two', { concurrency: 2 });
    await first.queues.configure('q:rests', { concurrency: 2 });
    await first.queues.pause('q:rests');
    await first.submitMany([...jobs(20, { type: 'both', queue: 'q:two' }), ...jobs(20, { type: 'both', queue: 'q:open' })]);
    await first.submitMany(jobs(3, { type: 'both', queue: 'q:rests' }));
    await Promise.all(workers.map((worker) => worker.start()));
    await until('the jobs of the two open queues have run', async () => (await completedIn('q:two')) + (await completedIn('q:open')), 40);
    expect(await mostAtOnce('q:two')).toBeLessThanOrEqual(2);
    expect(await completedIn('q:rests')).toBe(0);
    await first.queues.resume('q:rests');
    await until('it runs after the pause', () => completedIn('q:rests'), 3);
  });
});

describe('the rate of a queue', () => {
  it('spaces the starts of several workers [C56]', async () => {
    const org = await bench.ledger.newOrg();
    const workers = await Promise.all([1, 2].map(() => bench.open({ org, concurrency: 8 })));
    for (const worker of workers) worker.register({ type: 'paced', handler: async () => {} });
    const [first] = workers as [Millrace, Millrace];
    await first.queues.configure('q:paced', { rate: 20 });
    await first.submitMany(jobs(30, { type: 'paced', queue: 'q:paced' }));
    await Promise.all(workers.map((worker) => worker.start()));
    await until('all have run', () => completedIn('q:paced'), 30);
    const starts = (await changesIn('q:paced')).filter(({ change }) => change > 0).map(({ at }) => at.getTime());
    // A tenth of a second's worth may start at once. Times are of whole milliseconds.
    for (const [i, from] of starts.entries()) {
      for (const [j, to] of starts.entries()) if (j > i) expect(j - i).toBeLessThanOrEqual(2 + ((to - from + 2) * 20) / 1_000);
    }
  });
});

describe('the reserved share of a queue', () => {
  it('keeps slots from a flood in another queue, until it is removed [C58] [AB-queue.17]', async () => {
    const [flood, calm] = [new Gate(), new Gate()];
    const org = await bench.ledger.newOrg();
    const millrace = await bench.open({ org, concurrency: 4 });
    millrace.register({ type: 'flood', handler: () => flood.pass() });
    millrace.register({ type: 'calm', handler: () => calm.pass() });
    await millrace.queues.configure('q:calm', { reservedShare: 0.5 });
    await millrace.submitMany(jobs(10, { type: 'flood', queue: 'q:flood' }));
    await millrace.start();
    await flood.reached(2);
    await millrace.submitMany(jobs(3, { type: 'calm', queue: 'q:calm' }));
    await calm.reached(2);
    const runningOf = async (type: string) => (await millrace.search({ types: [type], states: ['running'] })).totalCount;
    expect([await runningOf('flood'), await runningOf('calm')]).toEqual([2, 2]);
    calm.open();
    await until('the third calm job has run', () => completedIn('q:calm'), 3);
    expect(await runningOf('flood')).toBe(2);
    await millrace.queues.configure('q:calm', { reservedShare: null });
    await flood.reached(4);
    flood.open();
    await until('the flood is over', () => completedIn('q:flood'), 10);
  });
});

describe('a drain', () => {
  it('refuses new jobs at the library, and runs retries and dependents of accepted ones [N24]', async () => {
    let failures = 0;
    const org = await bench.ledger.newOrg();
    const millrace = await bench.open({ org });
    millrace.register({
      ...{ type: 'stubborn', maxAttempts: 3, backoff: { initialDelay: '1ms', maxDelay: '1ms' } },
      handler: async () => {
        if (failures++ < 2) throw new Error('not yet');
      },
    });
    const job = { type: 'stubborn', queue: 'q:drained', payload: {} };
    const first = await millrace.submit(job);
    const next = await millrace.submit({ ...job, dependsOn: [first.jobId] });
    await millrace.queues.drain('q:drained');
    await expect(millrace.submit(job)).rejects.toMatchObject({ code: 'QUOTA_EXCEEDED', message: expect.stringContaining('is draining') });
    await expect(millrace.submitMany([job], { atomic: false })).resolves.toMatchObject({ rejected: 1 });
    await millrace.start();
    expect((await millrace.waitFor(next.jobId)).state).toBe('completed');
    await millrace.queues.resume('q:drained');
    await expect(millrace.submit(job)).resolves.toMatchObject({ status: 'ACCEPTED' });
  });
});
