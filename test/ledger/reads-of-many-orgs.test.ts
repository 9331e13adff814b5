/** Statements that serve callers of several orgs at once run without row-level security. Each of them must keep the orgs apart itself. */
import { expect, test } from 'vitest';
import { readFeed } from '../../src/ledger/history/read-feed.ts';
import { findEnded } from '../../src/ledger/reads/find-ended.ts';
import { getJobsOfOrgs } from '../../src/ledger/reads/get-job.ts';
import { historiesOfOrgs } from '../../src/ledger/reads/job-history.ts';
import { readNews, readOrgNews } from '../../src/ledger/reads/job-news.ts';
import { until } from '../until.ts';
import { type TestJob, useLedger } from './fixture.ts';

const ledger = useLedger();

/** Two jobs of two orgs that have progress and a line each. */
async function twoOrgs(): Promise<[TestJob, TestJob]> {
  const jobs: TestJob[] = [];
  for (let n = 0; n < 2; n++) {
    const job = await ledger.submitOne();
    await ledger.start(job);
    const { api } = ledger.db;
    await api.query(`INSERT INTO millrace.progress VALUES ($1, $2, 50, 'half', millrace.clock())`, [job.orgId, job.seq]);
    await api.query(
      `INSERT INTO millrace.job_logs (org_id, seq, lease_seq, n, attempt, at, level, message) VALUES ($1, $2, 1, 1, 1, millrace.clock(), 'info', 'a line')`,
      [job.orgId, job.seq],
    );
    jobs.push(job);
  }
  return jobs as [TestJob, TestJob];
}

test('jobs, histories, ends and news go to the org that has them, and to no other in the same statement [AB-sec.04]', async () => {
  const { api } = ledger.db;
  const [one, two] = await twoOrgs();
  const projectId = null;
  const pairs = [
    { orgId: one.orgId, id: one.id, projectId },
    { orgId: two.orgId, id: one.id, projectId },
    { orgId: one.orgId, id: two.id, projectId },
    { orgId: two.orgId, id: two.id, projectId },
  ];
  expect((await getJobsOfOrgs(api, pairs)).map((job) => job?.id ?? null)).toEqual([one.id, null, null, two.id]);
  expect((await historiesOfOrgs(api, pairs)).map((history) => history.length > 0)).toEqual([true, false, false, true]);
  // A job that its org does not have counts as ended, so that nobody waits for it.
  expect(await findEnded(api, pairs)).toEqual([1, 2]);
  const after = { leaseSeq: 0, n: 0 };
  const wanted = [one, two].flatMap(({ seq }) => [one, two].map(({ orgId }) => ({ orgId, seq, after, lines: 10 })));
  const news = await readNews(api, wanted);
  expect(news.map(({ progress, lines }) => [progress !== null, lines.length])).toEqual([
    [true, 1],
    [false, 0],
    [false, 0],
    [true, 1],
  ]);
  const crossed = [
    { orgId: one.orgId, seq: two.seq },
    { orgId: two.orgId, seq: one.seq },
  ];
  const lines = crossed.map((job) => ({ ...job, leaseSeq: 1, from: 1, to: 9 }));
  expect(await readOrgNews(api, { progress: crossed, lines }, 10)).toEqual([]);
  const straight = [one, two].map(({ orgId, seq }) => ({ orgId, seq }));
  expect((await readOrgNews(api, { progress: straight, lines: [] }, 10)).map(({ orgId }) => orgId).sort()).toEqual(
    [one.orgId, two.orgId].sort(),
  );
});

test('a page of the feed has the events of the orgs that it was read for', async () => {
  const [one, two] = await twoOrgs();
  const { rows } = await ledger.db.api.query('SELECT min(txid)::text AS txid FROM millrace.records WHERE org_id = ANY ($1::uuid[])', [
    [one.orgId, two.orgId],
  ]);
  const after = { txid: rows[0].txid, recordId: 0, jobSeq: 0, n: 0 };
  const orgsIn = async () => {
    const { events } = await readFeed(ledger.db.api, [one.orgId], { after, limit: 1_000 });
    return [...new Set(events.map(({ orgId }) => orgId))];
  };
  // Open transactions of other tests hold the feed back.
  await until('the feed shows events', async () => (await orgsIn()).length > 0);
  expect(await orgsIn()).toEqual([one.orgId]);
});
