import { describe, expect, it } from 'vitest';
import { type Failure, PermanentError } from '../../src/core/failure.ts';
import type { TestJob } from '../ledger/fixture.ts';
import { type Caller, useQueue } from './queue-fixture.ts';

const queue = useQueue();

type Details = { job_id: string; failure: { code: string } };
const idsOf = (body: { failures: Details[] }) => body.failures.map(({ job_id }) => job_id);

async function fail(
  caller: Caller,
  failure: Partial<Failure>,
  to: 'failed' | 'dead_letter' | 'retrying' = 'failed',
  type?: string,
): Promise<TestJob> {
  const job = await queue.ledger.start(await queue.ledger.submitOne({ orgId: caller.orgId, type }));
  const reason = ({ failed: 'permanent_failure', dead_letter: 'attempts_exhausted', retrying: 'temporary_failure' } as const)[to];
  const full = { category: 'PERMANENT', code: 'BROKEN', message: 'it broke', ...failure };
  await queue.ledger.settle(job, {
    to,
    reason,
    failure: JSON.stringify(full),
    delayMs: to === 'retrying' ? 60_000 : null,
  });
  return job;
}

describe('a search of failures', () => {
  it('finds what failed and was not helped since, newest first [GA-4.30] [GA-4.31]', async () => {
    const caller = await queue.caller();
    const [first, second, third] = [await fail(caller, {}), await fail(caller, {}, 'dead_letter'), await fail(caller, {}, 'retrying')];
    const helped = await fail(caller, {});
    await caller.post(`/jobs/${helped.id}/retry`, {});
    await queue.ledger.putJob('completed', { orgId: caller.orgId });
    await queue.ledger.putJob('failed');
    const { status, body } = await caller.post('/failures/search', {});
    expect(status).toBe(200);
    expect(idsOf(body)).toEqual([third, second, first].map((job) => job.id));
    expect(body).toMatchObject({ total_count: 3, total_is_estimate: false, next_cursor: null });
  });

  it('is not spoiled by a code that no database can store [GA-4.30] [GA-4.34]', async () => {
    const caller = await queue.caller();
    const jobId = await caller.act(() => {
      throw new PermanentError('odd', { code: 'X\0Y' });
    });
    await caller.reached(jobId, 'FAILED');
    const { status, body } = await caller.post('/failures/search', {});
    expect([status, body.total_count, body.by_code]).toEqual([200, 1, { 'X\uFFFDY': 1 }]);
  });

  it('shows of each what its own page shows [GA-4.30]', async () => {
    const caller = await queue.caller();
    const jobId = await caller.act(
      () => {
        throw new Error('again');
      },
      { max_attempts: 2 },
    );
    await caller.reached(jobId, 'DEAD_LETTER');
    const waiting = await caller.act(
      () => {
        throw new Error('later');
      },
      { backoff: { initial_delay: 3_600 } },
    );
    await caller.reached(waiting, 'RETRYING');
    const { failures } = (await caller.post('/failures/search', {})).body;
    for (const id of [jobId, waiting]) {
      const own = (await caller.get(`/jobs/${id}/failure`)).body;
      expect(failures.find((each: Details) => each.job_id === id)).toEqual(own);
    }
  });

  it('filters by state, category, type and code, all at once [GA-4.24..27]', async () => {
    const caller = await queue.caller();
    const jobs = {
      failed: await fail(caller, {}, 'failed', 'mail'),
      dead: await fail(caller, { category: 'TEMPORARY', code: 'BUSY' }, 'dead_letter', 'mail-2'),
      retrying: await fail(caller, { category: 'TIMEOUT', code: 'EXECUTION_TIMEOUT' }, 'retrying', 'report'),
      system: await fail(caller, { category: 'SYSTEM', code: 'WORKER_LOST' }, 'dead_letter', 'report-2'),
    };
    const found = async (search: object) => {
      const { body } = await caller.post('/failures/search', search);
      expect(body.total_count).toBe(body.failures.length);
      const names = Object.entries(jobs).map(([name, job]) => [job.id, name] as const);
      return idsOf(body).map((id) => new Map(names).get(id));
    };
    expect(await found({ states: ['FAILED'] })).toEqual(['failed']);
    expect(await found({ states: ['DEAD_LETTER', 'RETRYING'] })).toEqual(['system', 'retrying', 'dead']);
    expect(await found({ failure_category: ['TIMEOUT', 'SYSTEM'] })).toEqual(['system', 'retrying']);
    expect(await found({ types: ['mail', 'report'] })).toEqual(['retrying', 'failed']);
    expect(await found({ error_code: 'BUSY' })).toEqual(['dead']);
    expect(await found({ states: ['DEAD_LETTER'], failure_category: ['SYSTEM'], types: ['report-2'] })).toEqual(['system']);
    expect(await found({ states: ['FAILED'], error_code: 'BUSY' })).toEqual([]);
  });

  it('filters by time, from inclusive and to exclusive [GA-4.28]', async () => {
    const caller = await queue.caller();
    const job = await fail(caller, {});
    const failedAt = (await caller.get(`/jobs/${job.id}`)).body.updated_at;
    const next = new Date(Date.parse(failedAt) + 1).toISOString();
    const found = async (time_range: object) => (await caller.post('/failures/search', { time_range })).body.total_count;
    expect(await found({ from: failedAt })).toBe(1);
    expect(await found({ from: next })).toBe(0);
    expect(await found({ to: next })).toBe(1);
    expect(await found({ to: failedAt })).toBe(0);
    expect(await found({ from: failedAt, to: next })).toBe(1);
    expect(await found({})).toBe(1);
  });

  it('goes page by page [GA-4.29] [GA-4.32] [GA-6.04..06]', async () => {
    const caller = await queue.caller();
    const jobs = [];
    for (let count = 0; count < 5; count++) jobs.push((await fail(caller, {})).id);
    const seen: string[] = [];
    const sizes: number[] = [];
    for (let cursor: string | undefined; cursor !== null; ) {
      const pagination: object = cursor === undefined ? { limit: 2 } : { limit: 2, cursor };
      const { body } = await caller.post('/failures/search', { pagination });
      expect(body.total_count).toBe(5);
      seen.push(...idsOf(body));
      sizes.push(body.failures.length);
      cursor = body.next_cursor;
    }
    expect(sizes).toEqual([2, 2, 1]);
    expect(seen).toEqual(jobs.toReversed());
  });

  it('counts by category, code and type over all that match, not over the page [GA-4.33..35]', async () => {
    const caller = await queue.caller();
    await fail(caller, { category: 'TEMPORARY', code: 'BUSY' }, 'dead_letter', 'mail');
    await fail(caller, { category: 'TEMPORARY', code: 'BUSY' }, 'retrying', 'report');
    await fail(caller, { category: 'CANCELLED', code: 'CANCELLED' }, 'failed', 'mail');
    await fail(caller, { category: 'SYSTEM', code: 'WORKER_LOST' }, 'failed', 'mail');
    const { body } = await caller.post('/failures/search', { pagination: { limit: 1 } });
    expect(body.by_category).toEqual({ TEMPORARY: 2, SYSTEM: 2 });
    expect(body.by_code).toEqual({ BUSY: 2, CANCELLED: 1, WORKER_LOST: 1 });
    expect(body.by_type).toEqual({ mail: 3, report: 1 });
    const some = await caller.post('/failures/search', { failure_category: ['SYSTEM'] });
    expect(some.body).toMatchObject({ total_count: 2, by_category: { SYSTEM: 2 }, by_type: { mail: 2 } });
    const none = await (await queue.caller()).post('/failures/search');
    expect(none.body).toMatchObject({ failures: [], total_count: 0, by_category: {}, by_code: {}, by_type: {} });
  });

  it.each([
    ['a state that is no failure [GA-4.24]', { states: ['COMPLETED'] }, 'states[0]'],
    ['the category CANCELLED [GA-4.25]', { failure_category: ['CANCELLED'] }, 'failure_category[0]'],
    ['a time that is none [GA-4.28]', { time_range: { from: 'now' } }, 'time_range.from'],
    ['limit 0 [GA-4.29]', { pagination: { limit: 0 } }, 'pagination.limit'],
    ['limit 1001 [GA-4.29]', { pagination: { limit: 1_001 } }, 'pagination.limit'],
    ['a cursor of another search [GA-4.32]', { pagination: { cursor: 'WzEsIngiXQ' } }, 'cursor'],
    ['an unknown member', { category: ['SYSTEM'] }, 'category'],
  ])('is refused with %s', async (_what, search, field) => {
    const { status, body } = await (await queue.caller()).post('/failures/search', search);
    expect(status).toBe(400);
    expect(body.details[0].field).toBe(field);
  });
});
