import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { AppError } from '../../src/core/errors.ts';
import { wholeOrg } from '../../src/core/owner.ts';
import { submitJobs } from '../../src/ledger/jobs/submit-jobs.ts';
import { type JobFilter, type SearchPage, searchJobs } from '../../src/ledger/search/search-jobs.ts';
import { useLedger } from './fixture.ts';

const ledger = useLedger();

const search = (orgId: string, filter: JobFilter = {}, page: SearchPage = {}) => searchJobs(ledger.db.api, wholeOrg(orgId), filter, page);
const idsOf = async (orgId: string, filter: JobFilter) => (await search(orgId, filter)).jobs.map((job) => job.id);

async function submitMany(orgId: string, count: number): Promise<string[]> {
  const ids: string[] = [];
  for (let made = 0; made < count; made++) ids.push((await ledger.submitOne({ orgId })).id);
  return ids;
}

/** Every page from the first to the last. */
async function walk(orgId: string, page: SearchPage): Promise<string[][]> {
  const pages: string[][] = [];
  let cursor: string | null = null;
  do {
    const found = await search(orgId, {}, { ...page, cursor });
    expect(found.hasMore).toBe(found.nextCursor !== null);
    pages.push(found.jobs.map((job) => job.id));
    cursor = found.nextCursor;
  } while (cursor !== null);
  return pages;
}

describe('filters', () => {
  test('each filter finds its jobs and all together only what fits all [GA-2.35] [GA-2.36] [GA-2.37] [GA-2.38] [GA-2.39]', async () => {
    const orgId = await ledger.newOrg();
    const plain = await ledger.submitOne({ orgId, type: 'mail' });
    const tagged = await ledger.submitOne({
      orgId,
      type: 'report',
      job: { tags: { team: 'blue', env: 'test' }, priority: 0 },
    });
    const running = await ledger.putJob('running', { orgId, job: { tags: { team: 'blues' } } });
    expect(await idsOf(orgId, {})).toEqual([running.id, tagged.id, plain.id]);
    expect(await idsOf(orgId, { types: ['mail', 'report'] })).toEqual([tagged.id, plain.id]);
    expect(await idsOf(orgId, { states: ['running'] })).toEqual([running.id]);
    expect(await idsOf(orgId, { priorities: ['CRITICAL'] })).toEqual([tagged.id]);
    expect(await idsOf(orgId, { tags: { team: 'blue' } })).toEqual([tagged.id]);
    expect(await idsOf(orgId, { tags: { team: 'blue', env: 'live' } })).toEqual([]);
    expect(await idsOf(orgId, { ids: [plain.id, running.id] })).toEqual([running.id, plain.id]);
    expect(await idsOf(orgId, { types: ['report'], states: ['scheduled'], tags: { env: 'test' } })).toEqual([tagged.id]);
    expect(await idsOf(orgId, { types: ['report'], states: ['running'] })).toEqual([]);
  });

  test('times of creation and change bound a search [GA-2.40] [GA-2.41] [GA-2.42]', async () => {
    const orgId = await ledger.newOrg();
    const early = await ledger.submitOne({ orgId });
    await ledger.moveClock(60_000);
    const late = await ledger.submitOne({ orgId });
    const border = new Date(Date.parse(String((await ledger.rowOf(late)).created_at)) - 30_000);
    expect(await idsOf(orgId, { createdAfter: border })).toEqual([late.id]);
    expect(await idsOf(orgId, { createdBefore: border })).toEqual([early.id]);
    await ledger.start(early);
    expect(await idsOf(orgId, { updatedAfter: border, createdBefore: border })).toEqual([early.id]);
  });

  test('jobs of another org are never found', async () => {
    const job = await ledger.submitOne();
    expect(await idsOf(await ledger.newOrg(), { ids: [job.id] })).toEqual([]);
    expect(await idsOf(job.orgId, { ids: [job.id, randomUUID()] })).toEqual([job.id]);
  });
});

describe('pages', () => {
  test.each([
    ['CREATED_DESC', (ids: string[]) => ids.toReversed()],
    ['CREATED_ASC', (ids: string[]) => ids],
  ] as const)('walk every job once in the order %s [GA-2.43] [GA-2.45] [GA-2.46] [GA-2.48] [GA-2.49]', async (order, sorted) => {
    const orgId = await ledger.newOrg();
    const ids = await submitMany(orgId, 7);
    await ledger.moveClock(10_000);
    const pages = await walk(orgId, { order, limit: 3 });
    expect(pages.map((page) => page.length)).toEqual([3, 3, 1]);
    expect(pages.flat()).toEqual(sorted(ids));
  });

  test('the order of change shows what moved last first, also within one moment [GA-2.45]', async () => {
    const orgId = await ledger.newOrg();
    const entries = await Promise.all([1, 2, 3, 4].map(() => ledger.toWrite(orgId)));
    await submitJobs(ledger.db.api, entries);
    await ledger.moveClock(5_000);
    const [first, ...rest] = entries.map((entry) => entry.id);
    const { seq } = await ledger.rowOf({ orgId, id: first as string });
    await ledger.start({ projectId: null, orgId, id: first as string, seq: seq as number, jobType: entries[0]?.job.type ?? '' });
    expect((await walk(orgId, { order: 'UPDATED_DESC', limit: 2 })).flat()).toEqual([first, ...rest.toReversed()]);
    expect((await search(orgId)).jobs[0]?.id).toBe(rest.at(-1));
  });

  test('the newest come first, a hundred at most, unless told otherwise [GA-6.06]', async () => {
    const orgId = await ledger.newOrg();
    const entries = await Promise.all(Array.from({ length: 101 }, () => ledger.toWrite(orgId)));
    await submitJobs(ledger.db.api, entries);
    const found = await search(orgId);
    expect(found.jobs).toHaveLength(100);
    expect(found).toMatchObject({ hasMore: true, totalCount: 101, totalIsEstimate: false });
    expect(found.jobs[0]?.id).toBe(entries.at(-1)?.id);
  });

  test.each([0, 1001, 1.5])('a limit of %d is refused, 1 and 1000 are not [GA-2.44] [GA-6.05]', async (limit) => {
    const orgId = await ledger.newOrg();
    await expect(search(orgId, {}, { limit })).rejects.toMatchObject({
      code: 'INVALID_REQUEST',
      details: [{ field: 'limit' }],
    });
    await search(orgId, {}, { limit: 1 });
    await search(orgId, {}, { limit: 1000 });
  });

  test('a cursor that is broken, foreign or of another order is refused [GA-6.04]', async () => {
    const orgId = await ledger.newOrg();
    await submitMany(orgId, 2);
    const { nextCursor } = await search(orgId, {}, { limit: 1 });
    const foreign = Buffer.from('[2,"CREATED_DESC",1,null]').toString('base64url');
    const injected = Buffer.from('[1,"CREATED_DESC","1; DROP",null]').toString('base64url');
    for (const [cursor, order] of [
      ['%%%', 'CREATED_DESC'],
      ['', 'CREATED_DESC'],
      [foreign, 'CREATED_DESC'],
      [injected, 'CREATED_DESC'],
      [nextCursor, 'UPDATED_DESC'],
    ] as const) {
      const refusal = await search(orgId, {}, { cursor, order }).catch((error: unknown) => error);
      expect(refusal).toBeInstanceOf(AppError);
      expect(refusal).toMatchObject({ code: 'INVALID_REQUEST', details: [{ field: 'cursor' }] });
    }
  });

  test('a job that commits late is not passed by the cursor [GA-2.43]', async () => {
    const orgId = await ledger.newOrg();
    const settled = await submitMany(orgId, 2);
    await ledger.moveClock(10_000);
    const slow = await ledger.db.workers.connect();
    try {
      await slow.query('BEGIN');
      const late = await ledger.toWrite(orgId);
      await submitJobs(slow, [late]);
      const early = await submitMany(orgId, 2);
      const first = await search(orgId, {}, { order: 'CREATED_ASC', limit: 3 });
      expect(first.jobs.map((job) => job.id)).toEqual(settled);
      expect(first.hasMore).toBe(true);
      await slow.query('COMMIT');
      const second = await search(orgId, {}, { order: 'CREATED_ASC', limit: 3, cursor: first.nextCursor });
      expect(second.jobs.map((job) => job.id)).toEqual([late.id, ...early]);
    } finally {
      slow.release(true);
    }
  });
});

test('beyond some thousands the total is an estimate near the truth and says so [GA-2.47]', async () => {
  const orgId = await ledger.newOrg();
  const { seq } = await ledger.submitOne({ orgId, type: 'copied' });
  await ledger.db.maintenance.query(
    `INSERT INTO millrace.jobs (seq, org_id, id, created_at, updated_at, run_at, order_key, policy_id, state, priority,
       requested_priority, max_attempts, event_count, record_ids, queue, job_type, payload)
     SELECT nextval('millrace.job_seq'), org_id, gen_random_uuid(), created_at, updated_at, run_at, order_key, policy_id, state,
       priority, requested_priority, max_attempts, event_count, record_ids, queue, CASE WHEN n % 2 = 0 THEN 'even' ELSE 'odd' END, payload
     FROM millrace.jobs, generate_series(1, 24000) n WHERE org_id = $1 AND seq = $2`,
    [orgId, seq],
  );
  expect(await search(orgId, { types: ['copied'] })).toMatchObject({ totalCount: 1, totalIsEstimate: false });
  const all = await search(orgId, { types: ['even'] }, { limit: 1 });
  expect(all.totalIsEstimate).toBe(true);
  expect(all.totalCount).toBeGreaterThan(11_400);
  expect(all.totalCount).toBeLessThan(12_600);
});
