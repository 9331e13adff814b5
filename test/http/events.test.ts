import { expect, onTestFinished, test } from 'vitest';
import { inTransaction } from '../../src/ledger/driver/database.ts';
import { useLedger } from '../ledger/fixture.ts';
import { follow, pathsOf, serveEvents } from './events-fixture.ts';

const ledger = useLedger();

test('an org follows its jobs from submission to their end, each change one event in the words of the queue API', async () => {
  const orgId = await ledger.newOrg();
  const stream = await follow(await serveEvents(ledger), orgId);
  expect(stream.response.headers.get('content-type')).toBe('text/event-stream; charset=utf-8');
  expect(stream.response.headers.get('x-request-id')).not.toBeNull();
  const job = await ledger.putJob('dead_letter', { orgId });
  const events = await stream.take(3);
  expect(events.map(({ event }) => event)).toEqual(['job.scheduled', 'job.running', 'job.dead_letter']);
  expect(pathsOf(events)).toEqual(['PENDING>SCHEDULED:submitted', 'SCHEDULED>RUNNING:started', 'RUNNING>DEAD_LETTER:attempts_exhausted']);
  expect(events[2]?.data).toEqual({
    job_id: job.id,
    type: job.jobType,
    from_state: 'RUNNING',
    to_state: 'DEAD_LETTER',
    timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
    reason: 'attempts_exhausted',
    attempt: 1,
    sequence: 3,
  });
});

test('a change that commits after a later one is not skipped', async () => {
  const orgId = await ledger.newOrg();
  const stream = await follow(await serveEvents(ledger, { heartbeatMs: 10 }), orgId);
  const early = await ledger.db.api.connect();
  onTestFinished(() => early.release(true));
  await early.query('BEGIN; SET LOCAL idle_in_transaction_session_timeout = 0');
  const first = await ledger.submitOneOn(early, { orgId });
  const second = await ledger.submitOne({ orgId });
  expect(second.seq).toBeGreaterThan(first.seq);
  const third = await ledger.submitOne({ orgId });
  // The feed waits: were it to tell the later ones now, its place would be beyond the early one.
  await stream.heartbeats(10);
  await early.query('COMMIT');
  const events = await stream.take(3);
  expect(events.map(({ data }) => data.job_id).toSorted()).toEqual([first.id, second.id, third.id].toSorted());
});

test('a transaction of the rollup writer, which writes no event, holds none back', async () => {
  const orgId = await ledger.newOrg();
  const projecting = await ledger.db.projecting.connect();
  onTestFinished(() => projecting.release(true));
  await projecting.query('BEGIN; SET LOCAL idle_in_transaction_session_timeout = 0; SELECT pg_current_xact_id()');
  const server = await serveEvents(ledger, { heartbeatMs: 10 });
  const stream = await follow(server, orgId);
  const job = await ledger.submitOne({ orgId });
  const event = await stream.next();
  expect(event?.data.job_id).toBe(job.id);
  // Its place is behind the event, though the rollup writer is still at it.
  const resumed = await follow(server, orgId, '/events', { 'last-event-id': event?.id ?? '' });
  await resumed.heartbeats(2);
});

test('a change that is rolled back is never sent', async () => {
  const orgId = await ledger.newOrg();
  const stream = await follow(await serveEvents(ledger), orgId);
  const failing = inTransaction(ledger.db.api, async (client) => {
    await ledger.submitOneOn(client, { orgId });
    throw new Error('rolled back');
  });
  await expect(failing).rejects.toThrow('rolled back');
  const kept = await ledger.submitOne({ orgId });
  expect((await stream.next())?.data.job_id).toBe(kept.id);
});

test('the changes of another org are never sent', async () => {
  const [orgId, otherId] = [await ledger.newOrg(), await ledger.newOrg()];
  const server = await serveEvents(ledger);
  const stream = await follow(server, orgId);
  const start = stream.lastEventId;
  await ledger.submitOne({ orgId: otherId });
  const own = await ledger.submitOne({ orgId });
  expect((await stream.next())?.data.job_id).toBe(own.id);
  // A stream that resumes reads them from the database.
  const all = await follow(server, orgId, '/events', { 'last-event-id': start });
  expect((await all.next())?.data.job_id).toBe(own.id);
});

test('filters of one kind widen, filters of different kinds narrow', async () => {
  const orgId = await ledger.newOrg();
  const server = await serveEvents(ledger);
  const byType = await follow(server, orgId, '/events?type=mail&type=push&state=RUNNING');
  const byJob = await ledger.submitOne({ orgId, type: 'other' });
  const ofJob = await follow(server, orgId, `/events?job_id=${byJob.id}&state=RUNNING,COMPLETED`);
  for (const type of ['mail', 'call', 'push']) await ledger.start(await ledger.submitOne({ orgId, type }));
  await ledger.settle(await ledger.start(byJob), { to: 'completed', reason: 'succeeded', result: '1' });
  expect((await byType.take(2)).map(({ data }) => [data.type, data.to_state])).toEqual([
    ['mail', 'RUNNING'],
    ['push', 'RUNNING'],
  ]);
  expect(pathsOf(await ofJob.take(2))).toEqual(['SCHEDULED>RUNNING:started', 'RUNNING>COMPLETED:succeeded']);
});

test.each([
  ['/events?state=DONE', 'state[0]'],
  ['/events?colour=red', 'colour'],
  ['/events?last_event_id=nonsense', 'last_event_id'],
  [`/events?last_event_id=${Buffer.from('[1,9007199254740000,1,1]').toString('base64url')}`, 'last_event_id'],
])('%s is refused, naming the member', async (path, field) => {
  const server = await serveEvents(ledger);
  const response = await fetch(server.url + path, { headers: { authorization: `Bearer ${await ledger.newOrg()}` } });
  expect(response.status).toBe(400);
  expect(await response.json()).toMatchObject({ code: 'INVALID_REQUEST', details: [{ field }] });
});

test('a client without a key is refused', async () => {
  const server = await serveEvents(ledger);
  expect((await fetch(`${server.url}/events`)).status).toBe(403);
});
