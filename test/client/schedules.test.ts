import { expect, test } from 'vitest';
import { ApiError, MillraceClient, NotFoundError } from '../../src/client/index.ts';
import { API_KEY_SCOPES } from '../../src/core/api-key.ts';
import { useQueue } from '../http/queue-fixture.ts';
import { caught, scripted } from './fixture.ts';

const queue = useQueue();

async function connect(): Promise<MillraceClient> {
  const orgId = await queue.ledger.newOrg();
  return new MillraceClient({ baseUrl: queue.url, apiKey: await queue.keyOf(orgId, API_KEY_SCOPES) });
}

const DAILY = { cron: '@daily', type: 'report', payload: { region: 'north' } };

test('a schedule is created, read, replaced, changed, run and deleted, whatever its key', async () => {
  const client = await connect();
  const key = 'a/b ?#%🌾';
  const created = await client.createSchedule({ key, ...DAILY });
  expect(created).toMatchObject({ key, cron: '@daily', overlap: 'queue', paused: false });
  expect(await client.getSchedule(key)).toEqual(created);
  expect(await client.putSchedule(key, { ...DAILY, overlap: 'skip' })).toMatchObject({ key, overlap: 'skip' });
  expect(await client.changeSchedule(key, { paused: true, reason: 'a break' })).toMatchObject({ paused: true, reason: 'a break' });
  const { job_id } = await client.runSchedule(key);
  expect(await client.get(job_id)).toMatchObject({ type: 'report', planned_at: expect.any(String) });
  expect((await client.nextRuns(key, { count: 3 })).items).toHaveLength(3);
  expect(await client.deleteSchedule(key, { reason: 'done' })).toMatchObject({ key, last_job_id: job_id });
  expect(await caught(client.getSchedule(key))).toBeInstanceOf(NotFoundError);
});

test('all schedules are read, over several pages', async () => {
  const client = await connect();
  const keys = ['a', 'b', 'c', 'd', 'e'];
  for (const key of keys) await client.createSchedule({ key, ...DAILY });
  const found: string[] = [];
  for await (const { key } of client.schedules({ limit: 2 })) found.push(key);
  expect(found).toEqual(keys);
});

test('a call that would do its work twice is not repeated after a lost answer', async () => {
  const { client, seen } = await scripted((response) => response.destroy(), { retries: 2 });
  for (const call of [client.runSchedule('a'), client.createSchedule({ key: 'a', ...DAILY }), client.deleteSchedule('a')])
    expect(await caught(call)).toBeInstanceOf(ApiError);
  expect(seen.map(({ method }) => method).sort()).toEqual(['DELETE', 'POST', 'POST']);
});
