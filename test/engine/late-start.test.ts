/** Short jobs of a long line run under their lease, and their start is written with their outcome. */
import { describe, expect, it } from 'vitest';
import type { Handler, Millrace, Submission } from '../../src/index.ts';
import { AT_ONCE, pathOf, useBench } from '../library/fixture.ts';
import { until } from '../until.ts';
import { WorkerProcess } from './worker-process.ts';

const bench = useBench();
const sql = (text: string, values: unknown[] = []) => bench.ledger.db.maintenance.query(text, values);

const countOf = async (org: string, where: string): Promise<number> =>
  (await sql(`SELECT count(*)::int4 AS n FROM millrace.jobs j WHERE j.org_id = $1 AND ${where}`, [org])).rows[0].n;

/** Jobs whose start and end were written by one statement. */
const LATE = `j.state = 'completed' AND j.record_ids[j.event_count] = j.record_ids[j.event_count - 1]`;

const many = (count: number, type: string, options = {}) => Array.from({ length: count }, (_, n) => ({ type, payload: { n }, ...options }));

/** Submits a long line of jobs before anybody works on it. */
async function lineOf(count: number, handler: Handler, options = {}) {
  const org = await bench.ledger.newOrg();
  const millrace = await bench.open({ org, concurrency: 8 });
  millrace.register({ type: 'short', handler });
  return { org, millrace, ids: await submitAll(millrace, many(count, 'short', options)) };
}

async function submitAll(millrace: Millrace, jobs: Submission[]): Promise<string[]> {
  const ids: string[] = [];
  for (let done = 0; done < jobs.length; done += 1_000) {
    const { results } = await millrace.submitMany(jobs.slice(done, done + 1_000));
    ids.push(...results.map(({ jobId }) => jobId as string));
  }
  return ids;
}

const ended = (org: string, count: number): Promise<void> =>
  until(`${count} jobs have ended`, () => countOf(org, 'j.completed_at IS NOT NULL'), count);

it('each job has the same history as with an ordinary start', async () => {
  const { org, millrace, ids } = await lineOf(2_000, (_, payload) => payload);
  await millrace.start();
  await ended(org, 2_000);
  expect(await countOf(org, LATE)).toBeGreaterThan(0);
  expect(
    await countOf(
      org,
      `j.state <> 'completed' OR j.attempts_started <> 1 OR j.started_at < j.scheduled_at
    OR j.completed_at < j.started_at`,
    ),
  ).toBe(0);
  const job = await millrace.get(ids.at(-1) as string, { includeHistory: true });
  expect(job?.history?.map(({ from, to, reason }) => `${from ?? ''}>${to}:${reason}`)).toEqual([
    'pending>scheduled:submitted',
    'scheduled>running:started',
    'running>completed:succeeded',
  ]);
  const times = (job?.history ?? []).map(({ at }) => at.getTime());
  expect(times).toEqual(times.toSorted((a, b) => a - b));
  expect(job?.result).toMatchObject({ output: { n: 1_999 } });
});

describe('a handler of theirs may at once', () => {
  it.each<[string, Handler]>([
    ['report progress', (context) => context.reportProgress(50, 'half')],
    ['save a checkpoint', (context) => context.checkpoint({ page: 1 })],
    ['spawn a job', async (context) => void (await context.spawn({ type: 'nobody-serves-this', payload: {} }))],
    ['look for a checkpoint', async (context) => void (await context.lastCheckpoint())],
  ])('%s', async (_, act) => {
    const handler: Handler = (context, payload) => ((payload as { n: number }).n % 50 === 0 ? act(context, payload) : null);
    const { org, millrace } = await lineOf(1_000, handler);
    await millrace.start();
    await until('all short jobs have completed', () => countOf(org, `j.state = 'completed' AND j.job_type = 'short'`), 1_000);
    expect(await countOf(org, 'j.attempts_started > 1')).toBe(0);
  });

  it('complete its job in its own transaction', async () => {
    const client = await bench.connect();
    await client.query('CREATE TABLE IF NOT EXISTS done (n int)');
    let turn = Promise.resolve();
    const handler: Handler = (context, payload) => {
      if ((payload as { n: number }).n % 100 !== 0) return null;
      turn = turn.then(async () => {
        await client.query('BEGIN');
        await context.assertOwned(client);
        await client.query('INSERT INTO done VALUES (1)');
        await context.completeIn(client, { own: true });
        await client.query('COMMIT');
      });
      return turn;
    };
    const { org, millrace } = await lineOf(1_000, handler);
    await millrace.start();
    await ended(org, 1_000);
    expect((await client.query('SELECT count(*)::int4 AS n FROM done')).rows[0].n).toBe(10);
    expect(await countOf(org, `j.state = 'completed' AND j.attempts_started = 1`)).toBe(1_000);
  });

  it('fail, and is tried again', async () => {
    const seen = new Map<string, number[]>();
    const { org, millrace, ids } = await lineOf(
      1_000,
      ({ jobId, attempt }, payload) => {
        seen.set(jobId, [...(seen.get(jobId) ?? []), attempt]);
        if ((payload as { n: number }).n % 20 === 0 && attempt === 1) throw new Error('once');
      },
      { backoff: AT_ONCE },
    );
    await millrace.start();
    await ended(org, 1_000);
    expect(ids.map((id) => seen.get(id)?.join())).toEqual(ids.map((_, n) => (n % 20 === 0 ? '1,2' : '1')));
  });
});

it('a job that may not be tried again starts before its handler is called', async () => {
  const states = new Set<string>();
  const { org, millrace } = await lineOf(
    400,
    async ({ jobId }) => {
      states.add((await sql('SELECT state FROM millrace.jobs WHERE id = $1', [jobId])).rows[0].state);
    },
    { maxAttempts: 1 },
  );
  await millrace.start();
  await ended(org, 400);
  expect([...states]).toEqual(['running']);
});

it('a job that is cancelled has not run, unless its cancellation was but a request', async () => {
  const ran = new Set<string>();
  const { org, millrace, ids } = await lineOf(2_000, ({ jobId }) => void ran.add(jobId));
  await millrace.start();
  const answers = await Promise.all(ids.filter((_, n) => n % 10 === 0).map(async (id) => ({ id, answer: await cancel(millrace, id) })));
  await ended(org, 2_000);
  const states = new Map(
    (await sql('SELECT id, state FROM millrace.jobs WHERE org_id = $1', [org])).rows.map(({ id, state }) => [id, state]),
  );
  for (const { id, answer } of answers) {
    if (answer.status === 'CANCELLED') expect(states.get(id)).toBe('cancelled');
    if (states.get(id) === 'cancelled') expect(ran.has(id)).toBe(false);
    else expect(ran.has(id)).toBe(true);
  }
});

/** Again while the ledger has no time for it, as the error asks. */
async function cancel(millrace: Millrace, id: string) {
  for (;;) {
    try {
      return await millrace.cancel(id);
    } catch (error) {
      if ((error as { code?: string }).code !== 'UNAVAILABLE') throw error;
    }
  }
}

it('a worker that is killed leaves none of them behind, and no attempt has two starts', async () => {
  const org = await bench.ledger.newOrg();
  const millrace = await bench.open({ org, concurrency: 8 });
  await submitAll(millrace, many(3_000, 'brief', { maxAttempts: 2 }));
  const script = new URL('./fixtures/brief-worker.ts', import.meta.url).pathname;
  const child = await WorkerProcess.start({ url: bench.ledger.db.url, org, script });
  await child.says('ran 1000');
  await child.kill();
  millrace.register({ type: 'brief', handler: () => null });
  await millrace.start();
  await ended(org, 3_000);
  expect(await countOf(org, `j.state <> 'completed'`)).toBe(0);
  const begun = child.said.filter((line) => line.startsWith('began ')).flatMap((line) => line.split(' ').slice(1));
  // Matched here: as one join, it exceeded the time limit of a statement on a busy machine.
  const jobs = await sql('SELECT id, seq FROM millrace.jobs WHERE org_id = $1', [org]);
  const events = await sql(`SELECT job_seq FROM millrace.events WHERE org_id = $1 AND to_state = 'running' AND attempt = 1`, [org]);
  const started = new Set(events.rows.map(({ job_seq }) => job_seq));
  const isStarted = new Map(jobs.rows.map(({ id, seq }) => [id, started.has(seq)]));
  expect(begun.filter((id) => isStarted.get(id) !== true)).toEqual([]);
  expect(await bench.violations()).toEqual([]);
});

it('a handler that blocks its process is ended at its timeout, and the jobs behind it run elsewhere', async () => {
  const org = await bench.ledger.newOrg();
  const millrace = await bench.open({ org, concurrency: 8 });
  const ids = await submitAll(millrace, many(1_500, 'brief', { timeout: '1500ms', backoff: AT_ONCE }));
  const blocked = ids[700] as string;
  const script = new URL('./fixtures/brief-worker.ts', import.meta.url).pathname;
  // It may block before it has said that it is ready.
  const child = new WorkerProcess({ url: bench.ledger.db.url, org, script, blocks: blocked });
  await child.says(`began ${blocked}`);
  millrace.register({ type: 'brief', handler: () => null });
  await millrace.start();
  await ended(org, 1_500);
  expect(await countOf(org, `j.state <> 'completed'`)).toBe(0);
  expect(await pathOf(millrace, blocked)).toContain('running>retrying:timed_out');
});
