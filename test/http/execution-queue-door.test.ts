import { beforeAll, describe, expect, it } from 'vitest';
import { type TestClient, useExecution } from './execution-fixture.ts';
import { inAnHour } from './execution-work.ts';

const server = useExecution();
// A type that jobs of the queue may be given.
beforeAll(() => void server.engine.registry.register({ type: 'known', handler: () => null }));

// biome-ignore lint/suspicious/noExplicitAny: tests look at answers as they come
type Answer = { status: number; body: any };

/** What the holder of a client's key sends through the queue API. */
async function throughQueue(client: TestClient, method: string, path: string, sent?: object): Promise<Answer> {
  const headers = { authorization: `Bearer ${client.key}`, 'content-type': 'application/json' };
  const response = await fetch(`${server.url}/queue/v1${path}`, { method, headers, body: JSON.stringify(sent) });
  return { status: response.status, body: await response.json() };
}

describe('a job of the execution API, at the door of the queue', () => {
  it.each([
    ['type', { type: 'known' }],
    ['priority', { priority: 'HIGH' }],
    ['tags', { tags: {} }],
    ['tags', { tags: null }],
  ])('keeps its %s, and so stays where it was made [FR-07.15] [FR-13.06] [FR-13.07] [FR-01.05]', async (field, change) => {
    const client = await server.client();
    const request = { type: 'DEFERRED', execution_at: inAnHour(), work_kind: 'SUCCESS_FAST', idempotency_key: 'k' };
    const id = await client.submit(request);
    const before = await server.ledger.rowOf({ orgId: client.clientId, id });
    const { status, body } = await throughQueue(client, 'PATCH', `/jobs/${id}`, { ...change, correlation_id: 'c' });
    expect([status, body.details]).toMatchObject([400, [{ field, code: 'RESERVED_TYPE' }]]);
    expect(body.message).toContain('the execution API');
    expect(await server.ledger.rowOf({ orgId: client.clientId, id })).toEqual(before);
    expect(await client.submit(request)).toBe(id);
    await server.ledger.moveClock(3_600_000);
    await client.reached(id, 'SUCCEEDED');
    await server.ledger.moveClock(-3_600_000);
    expect((await client.report(id)).outcome).toBe('SUCCESS');
    expect((await client.get('/reports', { work_kinds: 'SUCCESS_FAST' })).body.totals.by_outcome).toEqual({
      SUCCESS: 1,
    });
  });

  it('names every member that stays, and takes those that nobody else goes by', async () => {
    const client = await server.client();
    const id = await client.submit({ type: 'DEFERRED', execution_at: inAnHour() });
    const refused = await throughQueue(client, 'PATCH', `/jobs/${id}`, { tags: { a: 'b' }, priority: 'LOW' });
    expect(refused.body.details.map(({ field }: { field: string }) => field)).toEqual(['priority', 'tags']);
    const taken = await throughQueue(client, 'PATCH', `/jobs/${id}`, { correlation_id: 'c' });
    expect([taken.status, taken.body.correlation_id]).toEqual([200, 'c']);
  });

  it('is retried in its turn: no priority can be given with it [FR-12.02]', async () => {
    const client = await server.client();
    const id = await client.submit({ work_kind: 'FAIL_IMMEDIATE' });
    await client.reached(id, 'FAILED');
    const refused = await throughQueue(client, 'POST', `/jobs/${id}/retry`, { priority: 'HIGH' });
    expect([refused.status, refused.body.details]).toMatchObject([400, [{ field: 'priority', code: 'RESERVED_TYPE' }]]);
    expect(await client.state(id)).toBe('FAILED');
    expect((await throughQueue(client, 'POST', `/jobs/${id}/retry`, {})).body.status).toBe('QUEUED');
  });
});
