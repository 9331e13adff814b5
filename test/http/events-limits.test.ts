import { expect, test } from 'vitest';
import { retryJob } from '../../src/ledger/jobs/retry-jobs.ts';
import { useLedger } from '../ledger/fixture.ts';
import { until } from '../until.ts';
import { connectionsOf, follow, pathsOf, serveEvents, watchReads } from './events-fixture.ts';
import { waitLonger } from './patient-pools.ts';
import { dial } from './server-fixture.ts';

const ledger = useLedger();

const ask = (url: string, orgId: string, path = '/events') => fetch(url + path, { headers: { authorization: `Bearer ${orgId}` } });

/** Resolves when the org can open a stream again. */
const untilRoom = (url: string, orgId: string) => {
  const status = async () => {
    const response = await ask(url, orgId);
    await response.body?.cancel();
    return response.status;
  };
  return until('the feed has room again', status, 200);
};

test('one org has a limited number of streams; another org still gets one; a closed stream makes room [GA-1.31] [GA-1.32] [GA-1.33] [GA-1.34] [GA-6.17]', async () => {
  const [orgId, otherId] = [await ledger.newOrg(), await ledger.newOrg()];
  const server = await serveEvents(ledger, { maxFollowersPerOrg: 2 });
  const [first] = [await follow(server, orgId), await follow(server, orgId)];
  const refused = await ask(server.url, orgId);
  expect(refused.status).toBe(429);
  expect(refused.headers.get('retry-after')).toBe('5');
  expect(await refused.json()).toMatchObject({
    code: 'QUOTA_EXCEEDED',
    quota: { limit: 'event_streams', current: 2, maximum: 2, retry_after: 'PT5S' },
  });
  await follow(server, otherId);
  first.hangUp();
  await untilRoom(server.url, orgId);
});

test('of the streams of a server an org gets its share, so that some are left for another org', async () => {
  const [orgId, otherId] = [await ledger.newOrg(), await ledger.newOrg()];
  const server = await serveEvents(ledger, { maxFollowers: 4 });
  for (let n = 0; n < 2; n++) await follow(server, orgId);
  const refused = await ask(server.url, orgId);
  expect(refused.status).toBe(429);
  expect(await refused.json()).toMatchObject({ quota: { limit: 'event_streams', current: 2, maximum: 2 } });
  await follow(server, otherId);
});

test('a server has a limited number of streams', async () => {
  const server = await serveEvents(ledger, { maxFollowers: 1 });
  await follow(server, await ledger.newOrg());
  const refused = await ask(server.url, await ledger.newOrg());
  expect(refused.status).toBe(503);
  expect(refused.headers.get('retry-after')).toBe('5');
});

test('a client that goes away before its stream begins leaves nothing behind', async () => {
  const orgId = await ledger.newOrg();
  const server = await serveEvents(ledger, { maxFollowersPerOrg: 1 });
  waitLonger(ledger.db);
  const held = await Promise.all(Array.from({ length: 10 }, () => ledger.db.api.connect()));
  const socket = await dial(server.port);
  socket.write(`GET /queue/v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${orgId}\r\n\r\n`);
  await until('the reader waits for a connection', () => ledger.db.api.waitingCount, 1);
  socket.destroy();
  await until('the server has closed its connections', () => connectionsOf(server), 0);
  for (const client of held) client.release();
  await until('no reader waits for a connection', () => ledger.db.api.waitingCount, 0);
  await untilRoom(server.url, orgId);
});

test('one reader serves all streams of a server', async () => {
  const reads = watchReads(ledger);
  const server = await serveEvents(ledger, { pollMs: 40 });
  const orgIds = [await ledger.newOrg(), await ledger.newOrg()];
  const streams = await Promise.all(Array.from({ length: 20 }, (_, i) => follow(server, orgIds[i % 2] ?? '')));
  const tellAll = async () => {
    for (const orgId of orgIds) await ledger.submitOne({ orgId });
    await Promise.all(streams.map((stream) => stream.take(1)));
  };
  await tellAll();
  await reads.untilCaughtUp();
  const before = { ...reads };
  const startedMs = performance.now();
  for (let i = 0; i < 5; i++) await tellAll();
  const elapsedMs = performance.now() - startedMs;
  expect(reads.own).toBe(before.own);
  expect(reads.shared - before.shared).toBeGreaterThanOrEqual(5);
  expect(reads.shared - before.shared).toBeLessThanOrEqual(elapsedMs / 40 + 2);
});

test('a server that closes ends its streams and says where to resume', async () => {
  const orgId = await ledger.newOrg();
  const server = await serveEvents(ledger);
  const stream = await follow(server, orgId);
  const job = await ledger.submitOne({ orgId });
  const ofJob = await follow(server, orgId, `/jobs/${job.id}/events`);
  const [first] = await stream.take(1);
  await ofJob.take(1);
  const closing = server.http.close();
  expect(await stream.rest()).toMatchObject([{ event: 'error', data: { code: 'SHUTTING_DOWN' } }]);
  expect(await ofJob.rest()).toMatchObject([{ event: 'error', data: { code: 'SHUTTING_DOWN', last_event_id: first?.id } }]);
  await closing;
});

test('a key that is revoked while its stream lasts ends the stream', async () => {
  const orgId = await ledger.newOrg();
  const server = await serveEvents(ledger);
  const stream = await follow(server, orgId);
  server.revoked.add(orgId);
  expect(await stream.rest()).toMatchObject([{ event: 'error', data: { code: 'FORBIDDEN' } }]);
});

test('a stream of one job tells its history, then what happens, and ends after the end', async () => {
  const orgId = await ledger.newOrg();
  const server = await serveEvents(ledger);
  const running = await ledger.start(await ledger.submitOne({ orgId }));
  const stream = await follow(server, orgId, `/jobs/${running.id}/events`);
  expect(pathsOf(await stream.take(2))).toEqual(['PENDING>SCHEDULED:submitted', 'SCHEDULED>RUNNING:started']);
  await ledger.settle(running, { to: 'completed', reason: 'succeeded', result: '1' });
  expect(pathsOf(await stream.rest())).toEqual(['RUNNING>COMPLETED:succeeded']);
});

test('a stream of a job that has ended tells its history and ends; after its last event there is nothing', async () => {
  const orgId = await ledger.newOrg();
  const server = await serveEvents(ledger);
  const job = await ledger.putJob('completed', { orgId });
  const events = await (await follow(server, orgId, `/jobs/${job.id}/events`)).rest();
  expect(events.map(({ event }) => event)).toEqual(['job.scheduled', 'job.running', 'job.completed']);
  const resumed = await follow(server, orgId, `/jobs/${job.id}/events?last_event_id=${events[0]?.id}`);
  expect((await resumed.rest()).map(({ id }) => id)).toEqual(events.slice(1).map(({ id }) => id));
  const nothing = await ask(server.url, orgId, `/jobs/${job.id}/events?last_event_id=${events[2]?.id}`);
  expect(nothing.status).toBe(204);
});

test('a job retried after its end is followed to its next end', async () => {
  const orgId = await ledger.newOrg();
  const server = await serveEvents(ledger);
  const job = await ledger.putJob('failed', { orgId });
  await retryJob(ledger.db.api, { projectId: null, orgId, id: job.id, resetAttempts: false, priority: null, delayMs: null, actor: null });
  const stream = await follow(server, orgId, `/jobs/${job.id}/events`);
  expect((await stream.take(4)).map(({ event }) => event)).toContain('job.failed');
  await ledger.settle(await ledger.start(job), { to: 'completed', reason: 'succeeded', result: '1' });
  expect((await stream.rest()).map(({ event }) => event)).toEqual(['job.running', 'job.completed']);
});

test('a job of another org, or none, is not found [GA-6.14]', async () => {
  const server = await serveEvents(ledger);
  const foreign = await ledger.submitOne();
  const orgId = await ledger.newOrg();
  for (const id of [foreign.id, '00000000-0000-4000-8000-00000000dead', 'nonsense']) {
    const response = await ask(server.url, orgId, `/jobs/${id}/events`);
    expect(response.status).toBe(404);
    expect(await response.json()).toMatchObject({ code: 'NOT_FOUND' });
  }
});

test('the event id of another job is not accepted as a position', async () => {
  const orgId = await ledger.newOrg();
  const server = await serveEvents(ledger);
  const [one, other] = [await ledger.putJob('completed', { orgId }), await ledger.putJob('completed', { orgId })];
  const [event] = await (await follow(server, orgId, `/jobs/${one.id}/events`)).rest();
  expect((await ask(server.url, orgId, `/jobs/${other.id}/events?last_event_id=${event?.id}`)).status).toBe(400);
});
