import { expect, it, onTestFinished } from 'vitest';
import type { Millrace } from '../../src/index.ts';
import { DatabaseRoad } from '../ledger/database-road.ts';
import { allEnded, Gate, useBench } from '../library/fixture.ts';
import { until } from '../until.ts';

const bench = useBench();
const SLOTS = 2;
const QUICK = 100;

it('a worker that was cut off for longer than its lease with jobs in its line works on when the database is back', async () => {
  const road = new DatabaseRoad(bench.ledger.db.url);
  await road.open();
  onTestFinished(() => road.close());
  const org = await bench.ledger.newOrg();
  const caller = await bench.open({ org });
  const worker = await bench.open({ database: road.url, org, concurrency: SLOTS });
  const [gate, cut] = [new Gate(), new Gate()];
  let begun = 0;
  worker.register({
    type: 'brief',
    lease: '2s',
    // A busy machine may cost an attempt or two besides the cut.
    maxAttempts: 20,
    // Short at first, so that the worker fetches jobs ahead; then they wait, with others behind them.
    handler: ({ signal }) => {
      if (++begun <= QUICK) return undefined;
      signal.addEventListener('abort', () => void cut.pass());
      return gate.pass();
    },
  });
  const submit = async (millrace: Millrace, count: number) => {
    const { results } = await millrace.submitMany(Array.from({ length: count }, () => ({ type: 'brief', payload: {} })));
    return results.map(({ jobId }) => jobId as string);
  };
  const before = await submit(worker, QUICK * 3);
  await worker.start();
  await gate.reached(SLOTS);
  await untilSteady(() => heldJobs(org));
  await road.close();
  await cut.reached(SLOTS);
  gate.open();
  await road.open();
  const after = await submit(caller, 20);
  for (const job of await allEnded(caller, [...before, ...after])) expect(job).toMatchObject({ state: 'completed' });
  await until('the tables agree', () => bench.violations(), []);
});

const heldJobs = async (org: string): Promise<number> =>
  (await bench.ledger.db.api.query('SELECT FROM millrace.jobs WHERE org_id = $1 AND worker_id IS NOT NULL', [org])).rowCount ?? 0;

/** The worker fetches no more: its slots and its line are full. */
async function untilSteady(read: () => Promise<number>): Promise<void> {
  let [last, times] = [-1, 0];
  await until('the number of held jobs is steady', async () => {
    const now = await read();
    times = now === last ? times + 1 : 0;
    last = now;
    return times > 30;
  });
}
