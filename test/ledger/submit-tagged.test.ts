import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { wholeOrg } from '../../src/core/owner.ts';
import type { Queryable } from '../../src/ledger/driver/statement.ts';
import { projectRollups } from '../../src/ledger/history/rollups.ts';
import { submitJobs } from '../../src/ledger/jobs/submit-jobs.ts';
import { getJob } from '../../src/ledger/reads/get-job.ts';
import { searchJobs } from '../../src/ledger/search/search-jobs.ts';
import { useLedger } from './fixture.ts';

const ledger = useLedger();

type Tags = Record<string, string> | null;

const NAMES_TO_QUOTE = { 'a "b"': 'c\\d', 'ä\u0001€': '𝄞', empty: '', __proto_: 'x' };

/** Writes jobs of one kind with these tags together. Answers them, and which statements wrote them. */
async function written(given: readonly Tags[], requestId?: string) {
  const orgId = await ledger.newOrg();
  const envelope = requestId === undefined ? null : { category: null, projectId: null, traceparent: null, requestId };
  const entries = [];
  for (const tags of given) entries.push(await ledger.toWrite(orgId, { type: 'same', job: { tags, envelope } }));
  const names: string[] = [];
  const db = {
    query: (query: { name: string }) => {
      names.push(query.name);
      return ledger.db.api.query(query as never);
    },
  };
  await submitJobs(db as unknown as Queryable, entries);
  return { orgId, names, ids: entries.map(({ id }) => id) };
}

test.each([
  ['alone', undefined],
  ['and came with a request', `r-${randomUUID()}`],
])('jobs of one kind that are tagged %s keep their own tags and are found by them at once and later', async (_, requestId) => {
  const given: Tags[] = [{ team: 'blue', n: '1' }, { team: 'red' }, NAMES_TO_QUOTE, {}, { team: 'blue' }];
  const { orgId, ids, names } = await written(given, requestId);
  expect(names).toEqual([expect.stringMatching(/^millrace_submit_alike_tagged_/)]);
  for (const [index, id] of ids.entries()) {
    const job = await getJob(ledger.db.api, wholeOrg(orgId), id);
    expect(job).toMatchObject({ tags: given[index], requestId: requestId ?? id });
  }
  const find = async (tags: Record<string, string>) =>
    (await searchJobs(ledger.db.api, wholeOrg(orgId), { tags }, {})).jobs.map((job) => job.id).toSorted();
  for (const isProjected of [false, true]) {
    if (isProjected) await projectRollups(ledger.db.maintenance, 1_000);
    expect(await find({ team: 'blue' })).toEqual([ids[0], ids[4]].toSorted());
    expect(await find({ 'a "b"': 'c\\d' })).toEqual([ids[2]]);
  }
});

test('a job without tags is not written as a tagged one in a batch with tagged jobs', async () => {
  const { orgId, ids, names } = await written([{ team: 'blue' }, null]);
  expect(names).toEqual(['millrace_submit_jobs']);
  const { rows } = await ledger.db.api.query('SELECT is_tagged, cardinality(seqs) AS jobs FROM millrace.records WHERE org_id = $1', [
    orgId,
  ]);
  expect(rows.toSorted((a, b) => Number(a.is_tagged) - Number(b.is_tagged))).toEqual([
    { is_tagged: false, jobs: 1 },
    { is_tagged: true, jobs: 1 },
  ]);
  expect((await getJob(ledger.db.api, wholeOrg(orgId), ids[1] as string))?.tags ?? null).toBeNull();
});
