/** What a lock that a handler's own transaction holds does to the others of its worker. */
import pg from 'pg';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { OutcomeBacklog } from '../../src/engine/work/outcome-backlog.ts';
import type { JobContext } from '../../src/index.ts';
import { allEnded, Gate, useBench } from '../library/fixture.ts';
import { until } from '../until.ts';

const bench = useBench();

/** A client whose transaction holds a job for as long as the test wants. */
async function userClient(): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: bench.ledger.db.url });
  await client.connect();
  onTestFinished(() => client.end());
  return client;
}

type Holding = (context: JobContext) => Promise<unknown>;

/** One job leaves its row locked behind it; the others follow. */
async function workBesideLock(end: () => unknown) {
  const org = await bench.ledger.newOrg();
  const client = await userClient();
  const hold: Holding = async (context) => {
    await client.query('BEGIN');
    await context.assertOwned(client);
    return end();
  };
  const handlers = { holds: (context: JobContext) => hold(context), quick: () => 'done', fails: () => end() };
  const millrace = await bench.work(handlers, { org, concurrency: 2, defaults: { maxAttempts: 1 } });
  const { jobId: held } = await millrace.submit({ type: 'holds', payload: {} });
  const stateOf = async (id: string) => (await millrace.get(id))?.state;
  return { millrace, org, client, held, stateOf };
}

describe('while a transaction of a handler holds its job', () => {
  it('the successes of its worker are written, and its own once the transaction ends', async () => {
    const { millrace, client, held, stateOf } = await workBesideLock(() => 'held');
    for (let round = 0; round < 3; round++) {
      const { results } = await millrace.submitMany(Array.from({ length: 20 }, () => ({ type: 'quick', payload: {} })));
      for (const { state } of await allEnded(millrace, results)) expect(state).toBe('completed');
    }
    expect(await stateOf(held)).toBe('running');
    await client.query('COMMIT');
    expect((await millrace.waitFor(held)).state).toBe('completed');
    expect(await bench.violations()).toEqual([]);
  });

  it('the failures of its worker are written, and its own once the transaction ends', async () => {
    const broken = () => {
      throw new Error('broken');
    };
    const { millrace, client, held, stateOf } = await workBesideLock(broken);
    const { results } = await millrace.submitMany(Array.from({ length: 20 }, () => ({ type: 'fails', payload: {} })));
    for (const { state } of await allEnded(millrace, results)) expect(state).toBe('dead_letter');
    expect(await stateOf(held)).toBe('running');
    await client.query('COMMIT');
    expect((await millrace.waitFor(held)).state).toBe('dead_letter');
  });
});

describe('outcomes that cannot be written', () => {
  it('occupy their slots: other jobs go to other workers until they are written', async () => {
    const org = await bench.ledger.newOrg();
    const gate = new Gate();
    const takenBy: string[] = [];
    const handlerOf = (name: string) => ({
      stuck: () => gate.pass(),
      quick: () => void takenBy.push(name),
    });
    const blocked = await bench.work(handlerOf('blocked'), { org, concurrency: 2 });
    const jobs = [1, 2].map((n) => ({ type: 'stuck', payload: { n } }));
    const { results } = await blocked.submitMany(jobs);
    await gate.reached(2);
    const client = await userClient();
    await client.query('BEGIN');
    await client.query(`SELECT FROM millrace.jobs WHERE org_id = $1 AND state = 'running' FOR UPDATE`, [org]);
    gate.open();
    await bench.work(handlerOf('other'), { org, concurrency: 2 });
    const caller = await bench.open({ org });
    // Were the slots free, the blocked worker would take half of these.
    await until('the last fifteen jobs went to the other worker', async () => {
      await caller.waitFor((await caller.submit({ type: 'quick', payload: {} })).jobId);
      return takenBy.length >= 15 && takenBy.slice(-15).every((name) => name === 'other');
    });
    await client.query('COMMIT');
    for (const { jobId } of results) expect((await caller.waitFor(jobId as string)).state).toBe('completed');
    expect(await bench.violations()).toEqual([]);
  });

  it('take all their slots once none has been written for a while, and none while they flow', () => {
    const clock = vi.spyOn(performance, 'now').mockReturnValue(10_000);
    onTestFinished(() => clock.mockRestore());
    const counts = { outcomes: 0, held: 0 };
    const backlog = new OutcomeBacklog(() => counts);
    backlog.added();
    counts.outcomes = 900;
    expect(backlog.slots).toBe(0);
    counts.held = 3;
    expect(backlog.slots).toBe(3);
    counts.outcomes = 1_500;
    expect(backlog.slots).toBe(500);
    clock.mockReturnValue(10_101);
    expect(backlog.slots).toBe(1_500);
    backlog.written();
    expect(backlog.slots).toBe(500);
  });
});
