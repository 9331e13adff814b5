/** Several processes that submit jobs with the same unique key at the same time. */
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import type { UniqueSubmission } from '../../src/index.ts';
import { useBench } from '../library/fixture.ts';
import { WorkerProcess } from './worker-process.ts';

const bench = useBench();
const SCRIPT = fileURLToPath(new URL('./fixtures/unique-submitter.ts', import.meta.url));
const PROCESSES = 4;

type Row = { id: string; state: string; payload: { by: number; version: number } };

async function jobsOf(org: string): Promise<Row[]> {
  const text =
    'SELECT j.id, j.state, j.payload FROM millrace.jobs j JOIN millrace.orgs o ON o.id = j.org_id WHERE $1 IN (o.id::text, o.slug) ORDER BY j.seq';
  return (await bench.ledger.db.maintenance.query(text, [org])).rows;
}

async function submitters(org: string, unique: UniqueSubmission, count: number): Promise<WorkerProcess[]> {
  const params = { script: SCRIPT, url: bench.ledger.db.url, org, blocks: JSON.stringify({ unique, count }) };
  return Promise.all(Array.from({ length: PROCESSES }, () => WorkerProcess.start(params)));
}

/** `result <status> <jobId> <version>` */
const resultsOf = (processes: readonly WorkerProcess[]): string[][] =>
  processes.flatMap(({ said }) => said.filter((line) => line.startsWith('result')).map((line) => line.split(' ').slice(1)));

async function race(org: string, unique: UniqueSubmission, count = 16) {
  const processes = await submitters(org, unique, count);
  for (const each of processes) each.release();
  await Promise.all(processes.map((each) => each.says('done')));
  return resultsOf(processes);
}

describe('64 submissions of four processes with one key', () => {
  it('skip: create one job, and all of them return it', async () => {
    const org = await bench.ledger.newOrg();
    const results = await race(org, { key: 'k' });
    const jobs = await jobsOf(org);
    expect(jobs).toHaveLength(1);
    expect(results).toHaveLength(64);
    expect(new Set(results.map(([, jobId]) => jobId))).toEqual(new Set([jobs[0]?.id]));
    expect(results.filter(([status]) => status === 'ACCEPTED')).toHaveLength(1);
  });

  it('replace: leave one job, the newest, and every other was cancelled', async () => {
    const org = await bench.ledger.newOrg();
    const results = await race(org, { key: 'k', onConflict: 'replace' });
    const jobs = await jobsOf(org);
    expect(jobs.filter(({ state }) => state === 'cancelled')).toHaveLength(63);
    const left = jobs.find(({ state }) => state === 'scheduled') as Row;
    expect(results.every(([status]) => status === 'ACCEPTED')).toBe(true);
    const marks = await bench.ledger.db.maintenance.query(
      'SELECT j.id FROM millrace.unique_keys u JOIN millrace.jobs j USING (org_id, seq) WHERE j.id = $1',
      [left.id],
    );
    expect(marks.rows).toEqual([{ id: left.id }]);
    expect(await bench.violations()).toEqual([]);
  });

  it('replace_payload: one job has the payload of the last submission of some process', async () => {
    const org = await bench.ledger.newOrg();
    const results = await race(org, { key: 'k', onConflict: 'replace_payload' });
    const jobs = await jobsOf(org);
    expect(jobs).toHaveLength(1);
    expect(results.filter(([status]) => status === 'UPDATED')).toHaveLength(63);
    // Calls with one key of a process are made in order, so the last of them is the last of its process.
    expect(jobs[0]?.payload.version).toBe(15);
  });

  it('two orgs with the same key have a job each', async () => {
    const [one, other] = [await bench.ledger.newOrg(), await bench.ledger.newOrg()];
    await Promise.all([race(one, { key: 'k' }, 4), race(other, { key: 'k' }, 4)]);
    expect(await jobsOf(one)).toHaveLength(1);
    expect(await jobsOf(other)).toHaveLength(1);
  });

  it('a process that is killed in the middle leaves no key behind that nobody can use', async () => {
    const org = await bench.ledger.newOrg();
    const unique = { key: 'k', onConflict: 'replace' } as const;
    const processes = await submitters(org, unique, 1_000);
    for (const each of processes) each.release();
    await Promise.all(processes.map((each) => each.says('result')));
    await Promise.all(processes.map((each) => each.kill()));
    const millrace = await bench.open({ org });
    expect(await millrace.submit({ type: 'raced', payload: {}, unique })).toMatchObject({
      status: 'ACCEPTED',
      replacedJobId: expect.any(String),
    });
    // The database may finish a statement of a killed process later, so the job that is left need not be the last one.
    expect((await jobsOf(org)).filter(({ state }) => state !== 'cancelled')).toHaveLength(1);
    expect(await bench.violations()).toEqual([]);
  });
});
