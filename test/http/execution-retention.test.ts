import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { until } from '../until.ts';
import { type TestClient, useExecution } from './execution-fixture.ts';
import { inAnHour } from './execution-work.ts';

const server = useExecution();
const { ledger } = server;
const DAY = 86_400_000;

const prune = () => ledger.prune();

/** A job that the pruner of the worker holds at this moment is gone when that is done. */
const untilGone = (client: TestClient, id: string) =>
  until(
    'the job has been removed',
    async () => {
      await prune();
      return (await client.get(`/jobs/${id}`)).status;
    },
    404,
  );

describe('thirty days after its end', () => {
  it.each([
    ['SUCCEEDED', { work_kind: 'SUCCESS_FAST' }],
    ['FAILED', { work_kind: 'FAIL_IMMEDIATE' }],
    ['CANCELED', { type: 'DEFERRED', execution_at: inAnHour() }],
  ])(
    'a %s job is gone with its events and its report, and not a minute before [FR-15.05] [FR-15.09] [FR-15.13] [FR-15.16] [FR-15.17] [FR-15.18]',
    async (state, request) => {
      const client = await server.client();
      const id = await client.submit(request);
      if (state === 'CANCELED') await client.post(`/jobs/${id}/cancel`);
      await client.reached(id, state);
      const job = { orgId: client.clientId, seq: Number((await ledger.rowOf({ orgId: client.clientId, id })).seq) };
      await ledger.moveClock(30 * DAY - 60_000);
      await prune();
      expect((await client.get(`/jobs/${id}/report`)).status).toBe(200);
      await ledger.moveClock(60_000 + 1);
      await untilGone(client, id);
      for (const path of [`/jobs/${id}`, `/jobs/${id}/report`]) {
        expect(await client.get(path)).toMatchObject({ status: 404, body: { code: 'RFA_JOB_NOT_FOUND' } });
      }
      expect(await ledger.eventsOf(job)).toEqual([]);
      await ledger.moveClock(-30 * DAY - 1);
    },
  );

  it('its idempotency key is free again; before that it is not [FR-15.16]', async () => {
    const client = await server.client();
    const request = { idempotency_key: 'order-1' };
    const first = await client.submit(request);
    await client.reached(first, 'SUCCEEDED');
    await ledger.moveClock(29 * DAY);
    await prune();
    expect(await client.submit(request)).toBe(first);
    await ledger.moveClock(DAY + 1);
    await untilGone(client, first);
    expect(await client.submit(request)).not.toBe(first);
    await ledger.moveClock(-30 * DAY - 1);
  });

  it('counts from the latest end: a retried job starts again [FR-15.16]', async () => {
    const client = await server.client();
    const id = await client.submit({ work_kind: 'FAIL_IMMEDIATE' });
    await client.reached(id, 'FAILED');
    await ledger.moveClock(20 * DAY);
    await client.post(`/jobs/${id}/retry`);
    await client.reached(id, 'FAILED');
    await ledger.moveClock(20 * DAY);
    await prune();
    expect((await client.get(`/jobs/${id}`)).status).toBe(200);
    await ledger.moveClock(10 * DAY + 60_000);
    await untilGone(client, id);
    await ledger.moveClock(-50 * DAY - 60_000);
  });
});

it('a worker process removes old jobs without being asked [FR-15.05]', async () => {
  const client = await server.client();
  const id = await client.submit();
  await client.reached(id, 'SUCCEEDED');
  await server.worker('none');
  await ledger.project();
  await ledger.moveClock(31 * DAY);
  // The first look comes at a random moment of twenty seconds.
  const chance = vi.spyOn(Math, 'random').mockReturnValue(0);
  onTestFinished(() => chance.mockRestore());
  await server.worker('start');
  await until('the job has been removed', async () => (await client.get(`/jobs/${id}`)).status, 404);
  await ledger.moveClock(-31 * DAY);
});

it('a job that waits for its time is kept past it, however long that is [FR-15.16]', async () => {
  const client = await server.client();
  await server.worker('none');
  const id = await client.submit({ type: 'DEFERRED', execution_at: inAnHour() });
  await ledger.moveClock(60 * DAY);
  await prune();
  expect(await client.state(id)).toBe('CREATED');
  await ledger.moveClock(-60 * DAY);
  await server.worker('start');
});
