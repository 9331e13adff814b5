import pg from 'pg';
import { expect, inject, test } from 'vitest';
import { PermanentError } from '../../src/index.ts';
import { openTestMillrace } from '../../src/testing/index.ts';
import { openMill } from './opening.ts';

type Jobs = {
  double: { payload: { n: number }; result: number };
  sum: { payload: { of: number[] }; result: string };
  fail: { payload: Record<string, never> };
};

test('runJob answers the job with its result and history [GA-5.06] [GM-2.14] [GM-2.15]', async () => {
  const mill = await openMill<Jobs>();
  mill.register({ type: 'double', handler: (_context, { n }) => 2 * n });
  const job = await mill.runJob('double', { n: 21 }, { tags: { color: 'red' } });
  expect(job).toMatchObject({ state: 'completed', tags: { color: 'red' }, result: { status: 'SUCCESS', output: 42 } });
  expect(job.history?.map(({ to }) => to)).toEqual(['scheduled', 'running', 'completed']);
});

test('registrations return REGISTERED and REPLACED, or throw INVALID, and may come between runs [GA-5.10] [GA-5.11] [GA-5.12]', async () => {
  const mill = await openMill<Jobs>();
  const first = mill.register({ type: 'double', handler: () => 1 });
  expect(first).toMatchObject({ type: 'double', status: 'REGISTERED', previous: false });
  expect((await mill.runJob('double', { n: 1 })).result?.output).toBe(1);
  const second = mill.register({ type: 'double', handler: () => 2 });
  expect(second).toMatchObject({ status: 'REPLACED', previous: true });
  const third = () => mill.register({ type: 'double', handler: () => 3, maxAttempts: 0 });
  expect(third).toThrow(expect.objectContaining({ status: 'INVALID', previous: true }));
  expect((await mill.runJob('double', { n: 1 })).result?.output).toBe(2);
});

test('a closed one, and an option that is not known, are refused', async () => {
  const mill = await openMill<Jobs>();
  await mill.close();
  for (const call of [
    mill.run(),
    mill.advance('1s'),
    mill.fastForward(),
    mill.runJob('double', { n: 1 }),
    mill.submit({ type: 'double', payload: { n: 1 } }),
  ])
    await expect(call).rejects.toMatchObject({ code: 'CLOSED' });
  await expect(openTestMillrace({ startsAt: new Date(0) } as never)).rejects.toMatchObject({
    code: 'INVALID_REQUEST',
    message: 'startsAt is not known (did you mean startAt?)',
  });
});

test('nothing runs outside a run', async () => {
  const mill = await openMill<Jobs>();
  mill.register({ type: 'double', handler: () => 1 });
  await mill.runJob('double', { n: 1 });
  const { jobId } = await mill.submit({ type: 'double', payload: { n: 2 } });
  expect(await mill.millrace.cancel(jobId)).toMatchObject({ status: 'CANCELLED', previousState: 'scheduled' });
  expect(await mill.run()).toMatchObject([{ jobId, state: 'cancelled', attempt: 0, failure: null }]);
});

test('run goes on until nothing is due: children, joins and dependents, in the order they ended [GM-6.01] [GM-6.05] [GA-5.24]', async () => {
  const mill = await openMill<Jobs>({ concurrency: 1 });
  mill.register({ type: 'double', handler: (_context, { n }) => 2 * n });
  mill.register({
    type: 'sum',
    handler: async (context, { of }) => {
      for (const n of of) await context.spawn({ type: 'double', payload: { n } }, { join: true });
      return 'spawned';
    },
  });
  const parent = await mill.submit({ type: 'sum', payload: { of: [1, 2] } });
  await mill.submit({ type: 'double', payload: { n: 50 }, dependsOn: [parent.jobId] });
  const outcomes = await mill.run();
  expect(outcomes.map((each) => [each.type, 'output' in each ? each.output : each.state])).toEqual([
    ['double', 2],
    ['double', 4],
    ['sum', 'spawned'],
    ['double', 100],
  ]);
});

test('a failed dependency takes its dependents along, and the outcomes say why [GM-2.16] [GM-6.14]', async () => {
  const mill = await openMill<Jobs>();
  mill.register({
    type: 'fail',
    handler: () => {
      throw new PermanentError('no such account', { code: 'NO_ACCOUNT' });
    },
  });
  mill.register({ type: 'double', handler: () => 1 });
  const first = await mill.submit({ type: 'fail', payload: {} });
  await mill.submit({ type: 'double', payload: { n: 1 }, dependsOn: [first.jobId] });
  expect(await mill.run()).toMatchObject([
    { type: 'fail', state: 'failed', attempt: 1, failure: { category: 'PERMANENT', code: 'NO_ACCOUNT' } },
    { type: 'double', state: 'failed', attempt: 0, failure: { code: 'DEPENDENCY_FAILED' } },
  ]);
});

test('a handler that never ends makes the run fail with a sentence that names it', async () => {
  const mill = await openMill<Jobs>({ limit: '300ms' });
  mill.register({ type: 'double', handler: () => new Promise<never>(() => {}) });
  await mill.submit({ type: 'double', payload: { n: 1 } });
  // The limit includes the start of the engine, so on a slow machine it may be over before the handler is called.
  await expect(mill.run()).rejects.toThrow(/Jobs have not ended after 300 ms of real time: double \S+ \((running|scheduled)\)/);
});

test('one run at a time', async () => {
  const mill = await openMill();
  const first = mill.run();
  await expect(mill.run()).rejects.toMatchObject({ code: 'ALREADY_RUNNING' });
  await first;
});

test('two at once share neither jobs nor time', async () => {
  const [one, other] = await Promise.all([openMill<Jobs>(), openMill<Jobs>()]);
  one.register({ type: 'double', handler: () => 1 });
  other.register({ type: 'double', handler: () => 2 });
  await one.submit({ type: 'double', payload: { n: 1 }, delay: '1h' });
  await other.submit({ type: 'double', payload: { n: 1 }, delay: '1h' });
  expect(await one.advance('2h')).toMatchObject([{ output: 1 }]);
  expect(await other.run()).toEqual([]);
  expect(await other.advance('1h')).toMatchObject([{ output: 2 }]);
});

test('close drops the database', async () => {
  const mill = await openTestMillrace<Jobs>({ database: inject('postgresUrl') });
  const name = new URL(mill.millrace.databaseUrl).pathname.slice(1);
  expect(name).toMatch(/^millrace_test_/);
  expect(await hasDatabase(name)).toBe(true);
  await mill.close();
  await mill.close();
  expect(await hasDatabase(name)).toBe(false);
});

test('await using closes it at the end of the block', async () => {
  let name = '';
  {
    await using mill = await openTestMillrace({ database: inject('postgresUrl') });
    name = new URL(mill.millrace.databaseUrl).pathname.slice(1);
    expect(await hasDatabase(name)).toBe(true);
  }
  expect(await hasDatabase(name)).toBe(false);
});

async function hasDatabase(name: string): Promise<boolean> {
  const client = new pg.Client({ connectionString: inject('postgresUrl') });
  await client.connect();
  const { rowCount } = await client.query('SELECT FROM pg_database WHERE datname = $1', [name]).finally(() => client.end());
  return rowCount === 1;
}
