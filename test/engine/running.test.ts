/** A job is `running` while its handler runs, and at no other time. */
import { expect, it } from 'vitest';
import { Gate, useBench } from '../library/fixture.ts';
import { until } from '../until.ts';

const bench = useBench();
const SLOTS = 4;
const LONG = 400;

const counted = async (org: string, where: string): Promise<number> => {
  const text = `SELECT count(*)::int4 AS n FROM millrace.jobs j WHERE j.org_id = $1 AND ${where}`;
  return (await bench.ledger.db.maintenance.query(text, [org])).rows[0].n;
};

it('a worker returns jobs that it leased ahead when its jobs take longer than before', async () => {
  const org = await bench.ledger.newOrg();
  const gate = new Gate();
  let running = 0;
  let most = 0;
  const handler = async (_: unknown, payload: unknown) => {
    most = Math.max(most, ++running);
    if ((payload as { long: boolean }).long) await gate.pass();
    running--;
  };
  const millrace = await bench.work({ mixed: handler }, { org, concurrency: SLOTS });
  const jobs = (count: number, long: boolean) => Array.from({ length: count }, () => ({ type: 'mixed', payload: { long } }));
  await millrace.submitMany(jobs(1_000, false));
  await millrace.submitMany(jobs(LONG, true));
  await gate.reached(SLOTS);
  await until('every slot runs a job', () => counted(org, `j.state = 'running'`), SLOTS);
  await until('the worker holds one job a slot', () => counted(org, 'j.worker_id IS NOT NULL'), SLOTS);
  expect(await counted(org, `j.state = 'scheduled'`)).toBe(LONG - SLOTS);
  gate.open();
  await until('all jobs have completed', () => counted(org, `j.state = 'completed'`), 1_000 + LONG);
  expect(most).toBe(SLOTS);
  expect(await counted(org, 'j.attempts_started <> 1')).toBe(0);
});
