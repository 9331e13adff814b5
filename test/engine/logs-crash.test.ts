import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { useBench } from '../library/fixture.ts';
import { until } from '../until.ts';
import { WorkerProcess } from './worker-process.ts';

const bench = useBench();
const script = fileURLToPath(new URL('./fixtures/log-worker.ts', import.meta.url));

it('a worker killed between two lines leaves the first one, and the next attempt adds its own', async () => {
  const org = await bench.ledger.newOrg();
  const child = await WorkerProcess.start({ url: bench.ledger.db.url, org, script });
  const millrace = await bench.open({ org });
  const { jobId } = await millrace.submit({ type: 'lines', payload: {} });
  await child.says(`began ${jobId}`);
  const messages = async () => (await millrace.logs(jobId))?.lines.map(({ attempt, message }) => `${attempt} ${message}`);
  await until('the first line is stored', async () => (await messages())?.length === 1);
  child.release();
  await child.says('logged');
  await child.kill();
  const seen: string[] = [];
  const following = (async () => {
    for await (const news of millrace.follow(jobId)) if (news.kind === 'log') seen.push(`${news.attempt} ${news.message}`);
  })();
  millrace.register({ type: 'lines', handler: (context) => context.log('info', 'rescued') });
  await millrace.start();
  expect(await millrace.waitFor(jobId, { timeout: '60s' })).toMatchObject({ state: 'completed', attemptsStarted: 2 });
  await until('the line of the second attempt is stored', messages, ['1 one', '2 rescued']);
  await following;
  expect(seen).toEqual(['1 one', '2 rescued']);
  expect(await bench.violations()).toEqual([]);
});

it('lines survive an outage of the database, once each', async () => {
  const millrace = await bench.open({ org: await bench.ledger.newOrg() });
  millrace.register({
    type: 'cut',
    handler: async (context) => {
      for (let n = 1; n <= 200; n++) {
        context.log('info', `${n}`);
        if (n % 40 === 0) await bench.cut();
      }
    },
  });
  await millrace.start();
  const { jobId } = await millrace.submit({ type: 'cut', payload: {} });
  await millrace.waitFor(jobId, { timeout: '60s' });
  const stored = async () => (await millrace.logs(jobId, { limit: 1_000 }))?.lines.map(({ message }) => message);
  await until('all lines are stored', async () => (await stored().catch(() => []))?.length === 200);
  expect(await stored()).toEqual(Array.from({ length: 200 }, (_, n) => `${n + 1}`));
});
