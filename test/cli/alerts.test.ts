import { expect, it } from 'vitest';
import { useLedger } from '../ledger/fixture.ts';
import { until } from '../until.ts';
import { ask, folderWith, start } from './program.ts';

const ledger = useLedger();
const here = () => ({ database: ledger.db.url });

type Alert = { kind: string; subject: string; count: number; message: string };

const HANDLERS = `export const handlers = {
  'alerts.die': { maxAttempts: 1, handler(_context, { n }) { throw new Error('the provider lost order ' + n); } },
};`;

it('a group of dead letters is one alert, whose subject is its first job [AB-dead.06]', async () => {
  const cwd = folderWith({ 'die.js': HANDLERS });
  const up = start(['up', 'die.js', '--port', '0', '--json'], { ...here(), cwd });
  const { url } = JSON.parse((await up.said(/.*"event":"up".*\n/))[0]) as { url: string };
  const die = (n: number) => ask<{ jobId: string }>(['jobs', 'submit', 'alerts.die', JSON.stringify({ n })], here());
  const listed = async () => {
    const { items } = await ask<{ items: Alert[] }>(['alerts', 'list', '--kind', 'dead_letter', '--url', url], { ...here(), cwd });
    return items;
  };
  const first = await die(1);
  await until('the alert is raised', async () => (await listed()).length, 1);
  expect(await listed()).toMatchObject([{ subject: `job:${first.jobId}`, count: 1 }]);
  await die(2);
  await until('the alert counts both', async () => (await listed()).reduce((sum, { count }) => sum + count, 0), 2);
  // The hour may end between the two jobs.
  expect((await listed()).at(-1)).toMatchObject({ subject: `job:${first.jobId}` });
});
