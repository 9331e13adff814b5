/** What the metric counts, as the reference says it. */
import { expect, it } from 'vitest';
import { useLedger } from '../ledger/fixture.ts';
import { until } from '../until.ts';
import { startUp, startWork, total } from './observed-process.ts';
import { folderWith, start } from './program.ts';

const ledger = useLedger();

it('workers_alive counts the workers of each process by kind of work, and none of a server that runs no jobs', async () => {
  const server = start(['serve', '--port', '0', '--json'], { database: ledger.db.url, cwd: folderWith({}) });
  const { url } = JSON.parse((await server.said(/.*"event":"listening".*\n/))[0]) as { url: string };
  expect(await total(url, 'workers_alive')).toBe(0);
  const counts = (workers: number) => until(`${workers} workers are counted`, () => total(url, 'workers_alive'), workers);
  await startUp(ledger);
  await counts(3);
  await startWork(ledger, ['one.js'], { 'one.js': 'export const handlers = { one() {} };' });
  await counts(4);
  await startWork(ledger);
  await counts(7);
});
