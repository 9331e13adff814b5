/** Payloads and results may be large. A read that does not show them must not fetch them. */

import type pg from 'pg';
import { expect, test } from 'vitest';
import { wholeOrg } from '../../src/core/owner.ts';
import { submitJobs } from '../../src/ledger/jobs/submit-jobs.ts';
import { getJob, getJobs } from '../../src/ledger/reads/get-job.ts';
import { SEARCH_ORDERS } from '../../src/ledger/search/search-cursor.ts';
import { searchJobs, searchJobsWithPayload } from '../../src/ledger/search/search-jobs.ts';
import { useLedger } from './fixture.ts';

const ledger = useLedger();
const JOBS = 5;
const LARGE = 200_000;

async function largeJobs(): Promise<{ orgId: string; ids: string[] }> {
  const orgId = await ledger.newOrg();
  const payload = { kind: 'json', text: JSON.stringify('p'.repeat(LARGE)) } as const;
  const entries = await Promise.all(Array.from({ length: JOBS }, () => ledger.toWrite(orgId, { job: { payload } })));
  await submitJobs(ledger.db.api, entries);
  await ledger.db.maintenance.query(
    `UPDATE millrace.jobs SET state = 'completed', completed_at = millrace.clock(), started_at = millrace.clock(), attempts_started = 1,
       result = to_json(repeat('r', $2::int4)) WHERE org_id = $1`,
    [orgId, LARGE],
  );
  return { orgId, ids: entries.map(({ id }) => id) };
}

/** The bytes that PostgreSQL sent while `work` ran. */
async function bytesOf(work: (client: pg.PoolClient) => Promise<unknown>): Promise<number> {
  const client = await ledger.db.api.connect();
  const { stream } = (client as unknown as { connection: { stream: { bytesRead: number } } }).connection;
  try {
    const before = stream.bytesRead;
    await work(client);
    return stream.bytesRead - before;
  } finally {
    client.release();
  }
}

test.each(SEARCH_ORDERS)('a search in the order %s moves neither payloads nor results', async (order) => {
  const { orgId, ids } = await largeJobs();
  expect(await bytesOf((client) => searchJobs(client, wholeOrg(orgId), {}, { order }))).toBeLessThan(LARGE / 4);
  expect(await bytesOf((client) => searchJobs(client, wholeOrg(orgId), { ids }, { order }))).toBeLessThan(LARGE / 4);
});

test('a search for payloads moves them and no results', async () => {
  const { orgId } = await largeJobs();
  const bytes = await bytesOf(async (client) => {
    const { jobs } = await searchJobsWithPayload(client, wholeOrg(orgId), {});
    expect(jobs.map(({ payload }) => payload.kind === 'json' && payload.text.length)).toEqual(jobs.map(() => LARGE + 2));
  });
  expect(bytes).toBeGreaterThan(JOBS * LARGE);
  expect(bytes).toBeLessThan(1.2 * JOBS * LARGE);
});

test('a job is read with the parts that are asked for', async () => {
  const { orgId, ids } = await largeJobs();
  const id = ids[0] as string;
  expect(await bytesOf((client) => getJob(client, wholeOrg(orgId), id))).toBeLessThan(LARGE / 4);
  expect(await bytesOf((client) => getJob(client, wholeOrg(orgId), id, { result: true }))).toBeLessThan(1.2 * LARGE);
  expect(await bytesOf((client) => getJob(client, wholeOrg(orgId), id, { payload: true }))).toBeLessThan(1.2 * LARGE);
  expect(await bytesOf((client) => getJobs(client, wholeOrg(orgId), ids))).toBeLessThan(1.2 * JOBS * LARGE);
  const whole = await getJob(ledger.db.api, wholeOrg(orgId), id, { payload: true, result: true });
  expect(whole?.payload).toMatchObject({ kind: 'json' });
  expect(whole?.result).toMatchObject({ status: 'SUCCESS', output: { kind: 'json' } });
});
