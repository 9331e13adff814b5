import { describe, expect, it } from 'vitest';
import { type Caller, useQueue } from './queue-fixture.ts';

const queue = useQueue();

const refusedCursor = (body: { code: string; details: { field: string; code: string }[] }, field = 'cursor') =>
  expect([body.code, body.details[0]?.field, body.details[0]?.code]).toEqual(['INVALID_REQUEST', field, 'INVALID_CURSOR']);

const LISTS = [
  {
    name: 'POST /jobs/search',
    read: (by: Caller, search: object) => by.post('/jobs/search', search),
    filter: { types: ['a', 'b'], states: ['DEAD_LETTER'], tags: { x: '1', y: '2' } },
    alike: { tags: { y: '2', x: '1' }, states: ['DEAD_LETTER', 'DEAD_LETTER'], types: ['b', 'a'], limit: 2 },
    others: [{}, { types: ['a'] }, { types: ['a', 'b'], states: ['DEAD_LETTER'] }, { created_after: '2020-01-01T00:00:00Z' }],
  },
  {
    name: 'POST /failures/search',
    read: (by: Caller, { limit, cursor, ...search }: { limit?: number; cursor?: string }) =>
      by.post('/failures/search', { ...search, pagination: { limit, cursor } }),
    filter: { types: ['a', 'b'], error_code: 'BUSY' },
    alike: { error_code: 'BUSY', types: ['b', 'a'], limit: 2 },
    others: [{}, { types: ['a', 'b'] }, { types: ['a', 'b'], error_code: 'LATE' }, { error_code: 'BUSY' }],
  },
] as const;

/** An org with three jobs that each list finds. */
async function callerWithFailures(): Promise<Caller> {
  const caller = await queue.caller();
  const failure = JSON.stringify({ category: 'TEMPORARY', code: 'BUSY', message: 'it was busy' });
  for (const type of ['a', 'b', 'a']) {
    const job = { orgId: caller.orgId, type, job: { tags: { x: '1', y: '2' } } };
    const running = await queue.ledger.start(await queue.ledger.submitOne(job));
    await queue.ledger.settle(running, { to: 'dead_letter', reason: 'attempts_exhausted', failure });
  }
  return caller;
}

describe.each(LISTS)('a cursor of $name', ({ read, filter, alike, others }) => {
  const firstCursor = async (caller: Caller): Promise<string> => {
    const { body } = await read(caller, { ...(filter as object), limit: 1 });
    expect(typeof body.next_cursor).toBe('string');
    return body.next_cursor;
  };

  it('is valid for the same filters in any spelling, and for another page size', async () => {
    const caller = await callerWithFailures();
    const { status, body } = await read(caller, { ...(alike as object), cursor: await firstCursor(caller) });
    expect(status).toBe(200);
    expect(body.jobs ?? body.failures).toHaveLength(2);
  });

  it('is refused with other filters [N35]', async () => {
    const caller = await callerWithFailures();
    const cursor = await firstCursor(caller);
    for (const other of others) {
      const { status, body } = await read(caller, { ...other, cursor });
      expect(status).toBe(400);
      refusedCursor(body);
    }
  });

  it('is refused in another org [N35]', async () => {
    const cursor = await firstCursor(await callerWithFailures());
    const { status, body } = await read(await callerWithFailures(), { ...(filter as object), cursor });
    expect(status).toBe(400);
    refusedCursor(body);
  });

  it('says nothing to its holder, and is the same text in every process', async () => {
    const caller = await callerWithFailures();
    const cursor = await firstCursor(caller);
    expect(cursor).toMatch(/^[\w-]{30,}$/);
    // Neither a list in JSON nor a number or a time. Sealed bytes look like one of these about once in 400 000 times.
    expect(Buffer.from(cursor, 'base64url').toString('latin1')).not.toMatch(/^\[.*,.*\]$|\d{6}/s);
    const elsewhere = await queue.listen();
    expect(await firstCursor(caller.at(elsewhere))).toBe(cursor);
    expect((await read(caller.at(elsewhere), { ...(filter as object), cursor })).status).toBe(200);
  });

  it('is refused with any change of any of its bytes, or in another spelling', async () => {
    const caller = await callerWithFailures();
    const cursor = await firstCursor(caller);
    const bytes = Buffer.from(cursor, 'base64url');
    const changed = Array.from(bytes, (byte, at) => {
      const copy = Buffer.from(bytes);
      copy[at] = byte ^ (1 << (at % 8));
      return copy.toString('base64url');
    });
    const forged = Buffer.from(JSON.stringify([2, 'x', 1, 1])).toString('base64url');
    const spelled = [`${cursor}=`, `${cursor} `, cursor.slice(0, -1), cursor.slice(0, 20), `${cursor}AAAA`, forged];
    for (const wrong of [...changed, ...spelled]) {
      const { status, body } = await read(caller, { ...(filter as object), cursor: wrong });
      expect({ wrong, status }).toEqual({ wrong, status: 400 });
      refusedCursor(body);
    }
  });

  it('is refused at every other list', async () => {
    const caller = await callerWithFailures();
    const cursor = await firstCursor(caller);
    for (const list of LISTS.filter((each) => each.read !== read)) refusedCursor((await list.read(caller, { cursor })).body);
  });
});

describe('a cursor of another org', () => {
  it('selects no page of jobs to cancel [N35]', async () => {
    const [owner, stranger] = [await callerWithFailures(), await callerWithFailures()];
    const { next_cursor: cursor } = (await owner.get('/jobs', { limit: '1' })).body;
    refusedCursor((await stranger.post('/jobs/cancel', { filter: { cursor, limit: 1 } })).body, 'filter.cursor');
    refusedCursor((await stranger.get('/jobs', { cursor })).body);
    expect((await owner.get('/jobs', { cursor })).body.jobs).toHaveLength(2);
  });
});
