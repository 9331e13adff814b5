import { beforeAll, describe, expect, it } from 'vitest';
import { type Caller, type Query, useQueue } from './queue-fixture.ts';

const queue = useQueue();

type Page = { jobs: { job_id: string; type: string; created_at: string }[]; next_cursor: string | null };
const idsOf = (page: Page) => page.jobs.map((job) => job.job_id);

describe('a search', () => {
  let caller: Caller;
  /** Oldest first. */
  const ids: string[] = [];
  const times: string[] = [];
  beforeAll(async () => {
    caller = await queue.caller();
    const submissions = [
      { type: 'mail', priority: 'HIGH', tags: { customer: 'acme', region: 'eu' } },
      { type: 'mail', priority: 'LOW', tags: { customer: 'acme', region: 'us' } },
      { type: 'report', priority: 'LOW', delay: 3_600, tags: { customer: 'a:b' } },
      { type: 'report' },
    ];
    for (const submission of submissions) {
      const { body } = await caller.post('/jobs', { payload: {}, ...submission });
      ids.push(body.job_id);
      times.push(body.created_at);
      // No two of them in one millisecond.
      await queue.ledger.moveClock(60_000);
    }
    await caller.post(`/jobs/${ids[0]}/cancel`, {});
    await (await queue.caller()).submit({ type: 'mail' });
  });

  /** Numbers of the jobs found, by both forms of the search, which must agree. */
  async function found(search: Record<string, unknown>, query: Query): Promise<number[]> {
    const posted = await caller.post('/jobs/search', search);
    const listed = await caller.get('/jobs', query);
    expect([posted.status, listed.status]).toEqual([200, 200]);
    expect(listed.body).toEqual(posted.body);
    expect(posted.body.total_count).toBe(posted.body.jobs.length);
    return idsOf(posted.body).map((id) => ids.indexOf(id));
  }

  it('without filters finds every job of the org, newest first [GA-2.35] [GA-2.46]', async () => {
    expect(await found({}, {})).toEqual([3, 2, 1, 0]);
    expect((await caller.post('/jobs/search')).body.total_count).toBe(4);
  });

  it.each([
    ['types [GA-2.36]', { types: ['report'] }, { types: 'report' }, [3, 2]],
    ['several types [GA-2.36]', { types: ['report', 'mail'] }, { types: ['report', 'mail'] }, [3, 2, 1, 0]],
    ['states [GA-2.37]', { states: ['CANCELLED', 'DELAYED'] }, { states: 'CANCELLED,DELAYED' }, [2, 0]],
    ['priorities [GA-2.38]', { priorities: ['LOW'] }, { priorities: 'LOW' }, [2, 1]],
    ['tags [GA-2.39]', { tags: { customer: 'acme' } }, { tags: 'customer:acme' }, [1, 0]],
    ['no tags, which asks nothing [GA-2.35]', { tags: {} }, {}, [3, 2, 1, 0]],
    ['all tags [GA-2.39]', { tags: { customer: 'acme', region: 'us' } }, { tags: ['customer:acme', 'region:us'] }, [1]],
    ['whole values of tags [GA-2.39]', { tags: { customer: 'acm' } }, { tags: 'customer:acm' }, []],
    ['tags with a colon', { tags: { customer: 'a:b' } }, { tags: 'customer:a:b' }, [2]],
    ['all filters at once [GA-2.35]', { types: ['mail'], priorities: ['LOW'] }, { types: 'mail', priorities: 'LOW' }, [1]],
    ['the other order [GA-2.45]', { order: 'CREATED_ASC' }, { order: 'CREATED_ASC' }, [0, 1, 2, 3]],
    ['the order of change [GA-2.45]', { order: 'UPDATED_DESC' }, { order: 'UPDATED_DESC' }, [0, 3, 2, 1]],
  ] as const)('filters by %s', async (_what, search, query, expected) => {
    expect(await found(search, query as unknown as Query)).toEqual(expected);
  });

  it('filters by times, with any offset [GA-2.40..42] [GA-6.01]', async () => {
    const middle = new Date(Date.parse(times[2] as string)).toISOString();
    const { body: all } = await caller.post('/jobs/search', {});
    const cancelledAt = all.jobs.find((job: { job_id: string }) => job.job_id === ids[0]).updated_at;
    const beforeAll = new Date(Date.parse(times[0] as string) - 1_000).toISOString().replace('Z', '+00:00');
    expect(await found({ created_after: beforeAll }, { created_after: beforeAll })).toEqual([3, 2, 1, 0]);
    expect(await found({ created_before: beforeAll }, { created_before: beforeAll })).toEqual([]);
    const later = await caller.post('/jobs/search', { created_after: middle });
    const earlier = await caller.post('/jobs/search', { created_before: middle });
    expect(idsOf(later.body)).toContain(ids[3]);
    expect(idsOf(later.body)).not.toContain(ids[1]);
    expect(idsOf(earlier.body)).toEqual([ids[1], ids[0]]);
    const justBefore = new Date(Date.parse(cancelledAt) - 1).toISOString();
    expect(idsOf((await caller.post('/jobs/search', { updated_after: justBefore })).body)).toEqual([ids[0]]);
  });

  it.each([
    ['a state in lower case', { states: ['failed'] }, 'states[0]', 'INVALID_VALUE'],
    ['an unknown priority', { priorities: ['TOP'] }, 'priorities[0]', 'INVALID_VALUE'],
    ['limit 0 [GA-2.44] [GA-6.05]', { limit: 0 }, 'limit', 'OUT_OF_RANGE'],
    ['limit 1001 [GA-2.44] [GA-6.05]', { limit: 1_001 }, 'limit', 'OUT_OF_RANGE'],
    ['a limit in text', { limit: '10' }, 'limit', 'INVALID_TYPE'],
    ['an unknown order [GA-2.45]', { order: 'PRIORITY' }, 'order', 'INVALID_VALUE'],
    ['a time that is none [GA-2.40]', { created_after: 'yesterday' }, 'created_after', 'INVALID_TIMESTAMP'],
    ['a cursor that is none [GA-2.43]', { cursor: 'bm9uc2Vuc2U' }, 'cursor', 'INVALID_CURSOR'],
    ['an unknown member', { typs: ['mail'] }, 'typs', 'UNKNOWN_MEMBER'],
  ])('is refused with %s', async (_what, search, field, code) => {
    const { status, body } = await caller.post('/jobs/search', search);
    expect(status).toBe(400);
    expect(body.details[0]).toMatchObject({ field, code });
  });

  it('in a query is refused for the same reasons [GA-2.44]', async () => {
    const queries: Query[] = [{ limit: '0' }, { limit: 'ten' }, { states: 'lost' }, { tags: 'nocolon' }, { typo: 'x' }];
    for (const query of queries) expect((await caller.get('/jobs', query)).status).toBe(400);
  });
});

describe('pages', () => {
  async function orgWith(count: number): Promise<Caller> {
    const caller = await queue.caller();
    await caller.post('/jobs/batch', { jobs: Array.from({ length: count }, () => ({ type: 'page', payload: {} })) });
    return caller;
  }

  it('follow each other by an opaque cursor until there are no more [GA-2.43] [GA-2.47..49] [GA-6.04]', async () => {
    const caller = await orgWith(7);
    const first = (await caller.post('/jobs/search', { limit: 3 })).body;
    // What comes between two pages moves nothing.
    const late = await caller.submit();
    const second = (await caller.post('/jobs/search', { limit: 3, cursor: first.next_cursor })).body;
    const last = (await caller.get('/jobs', { limit: '3', cursor: second.next_cursor })).body;
    expect([first, second, last].map((page) => page.jobs.length)).toEqual([3, 3, 1]);
    expect([first, second, last].map((page) => page.has_more)).toEqual([true, true, false]);
    expect([first, second, last].map((page) => page.total_count)).toEqual([7, 8, 8]);
    expect(last.next_cursor).toBeNull();
    const seen = new Set([first, second, last].flatMap(idsOf));
    expect(seen.size).toBe(7);
    expect(seen).not.toContain(late);
  });

  it('have 100 jobs unless told, and at most 1000 [GA-2.44] [GA-6.05] [GA-6.06]', async () => {
    const caller = await orgWith(101);
    expect((await caller.post('/jobs/search', {})).body.jobs).toHaveLength(100);
    expect((await caller.get('/jobs')).body.jobs).toHaveLength(100);
    expect((await caller.post('/jobs/search', { limit: 1_000 })).body.jobs).toHaveLength(101);
    expect((await caller.post('/jobs/search', { limit: 1 })).body).toMatchObject({ total_count: 101, has_more: true });
  });

  it('of another order do not take the cursor [GA-2.43]', async () => {
    const caller = await orgWith(2);
    const { body } = await caller.post('/jobs/search', { limit: 1 });
    const { status } = await caller.post('/jobs/search', { order: 'UPDATED_DESC', cursor: body.next_cursor });
    expect(status).toBe(400);
  });
});
