import { beforeAll, expect, test } from 'vitest';
import { FeedCursors } from '../../src/engine/follow/feed-cursor.ts';
import { inTransaction } from '../../src/ledger/driver/database.ts';
import { sealOf } from '../../src/ledger/driver/seal.ts';
import { useLedger } from '../ledger/fixture.ts';
import { until } from '../until.ts';
import { connectionsOf, type EventServer, follow, type Received, serveEvents, watchReads } from './events-fixture.ts';
import { dial } from './server-fixture.ts';

const ledger = useLedger();

const submitMany = async (orgId: string, count: number): Promise<string[]> => {
  const ids: string[] = [];
  for (let i = 0; i < count; i++) ids.push((await ledger.submitOne({ orgId, type: 'many' })).id);
  return ids;
};

const idsOf = (events: readonly Received[]) => events.map(({ data }) => data.job_id);

test('a client that lost its connection resumes after the last event it saw, without a gap and without a repeat', async () => {
  const orgId = await ledger.newOrg();
  const server = await serveEvents(ledger, { pageSize: 3 });
  const first = await follow(server, orgId);
  const before = await submitMany(orgId, 4);
  const seen = await first.take(4);
  first.hangUp();
  const missed = await submitMany(orgId, 10);
  const second = await follow(server, orgId, '/events', { 'last-event-id': seen[3]?.id ?? '' });
  const after = await submitMany(orgId, 3);
  expect(idsOf(seen)).toEqual(before);
  expect(idsOf(await second.take(13))).toEqual([...missed, ...after]);
});

test('it may resume from the middle of one transaction, with the id in the query', async () => {
  const orgId = await ledger.newOrg();
  const server = await serveEvents(ledger, { pageSize: 2 });
  const first = await follow(server, orgId);
  const ids = await inTransaction(ledger.db.api, async (client) => {
    const made: string[] = [];
    for (let i = 0; i < 6; i++) made.push((await ledger.submitOneOn(client, { orgId })).id);
    return made;
  });
  const seen = await first.take(6);
  expect(idsOf(seen)).toEqual(ids);
  const second = await follow(server, orgId, `/events?last_event_id=${seen[2]?.id}`);
  expect(idsOf(await second.take(3))).toEqual(ids.slice(3));
});

test('clients that resume while jobs are submitted by several hands at once see each change once', async () => {
  const orgId = await ledger.newOrg();
  const server = await serveEvents(ledger, { pageSize: 5, pollMs: 1 });
  const start = (await follow(server, orgId)).lastEventId;
  const hands = Promise.all(Array.from({ length: 4 }, () => submitMany(orgId, 25)));
  const seen: unknown[] = [];
  let from = start;
  while (seen.length < 100) {
    const stream = await follow(server, orgId, `/events?last_event_id=${from}`);
    const events = await stream.take(Math.min(7, 100 - seen.length));
    stream.hangUp();
    seen.push(...idsOf(events));
    from = events.at(-1)?.id ?? '';
  }
  expect(seen.toSorted()).toEqual((await hands).flat().toSorted());
});

/** Ids are opaque to clients; a test may look inside. */
const positionOf = async (orgId: string, id: string) => new FeedCursors(await sealOf(ledger.db.api), orgId).read(id);
const transactionOf = async (orgId: string, id: string): Promise<number> => (await positionOf(orgId, id)).txid;

test('the id of an event says nothing of other orgs, is the same in every stream, and is refused in another org', async () => {
  const [orgId, stranger] = [await ledger.newOrg(), await ledger.newOrg()];
  const server = await serveEvents(ledger);
  const streams = [await follow(server, orgId), await follow(server, orgId)];
  await submitMany(orgId, 1);
  const [first, second] = await Promise.all(streams.map(async (stream) => (await stream.take(1))[0]));
  const id = first?.id ?? '';
  expect(second?.id).toBe(id);
  // Any three bytes may look like digits by chance, but not like these numbers.
  const { txid, recordId, jobSeq } = await positionOf(orgId, id);
  const bytes = Buffer.from(id, 'base64url').toString('latin1');
  for (const numbers of [`${txid} `, `${txid} ${recordId}`, `${recordId} ${jobSeq} `]) expect(bytes).not.toContain(numbers);
  const statusOf = async (org: string, given: string) => {
    const abort = new AbortController();
    const headers = { authorization: `Bearer ${org}`, 'last-event-id': given };
    const { status } = await fetch(`${server.url}/events`, { headers, signal: abort.signal });
    abort.abort();
    return status;
  };
  expect(await statusOf(orgId, id)).toBe(200);
  expect(await statusOf(stranger, id)).toBe(400);
  expect(await statusOf(orgId, `${id.slice(0, -1)}${id.endsWith('A') ? 'B' : 'A'}`)).toBe(400);
});

test('a heartbeat moves the place to resume past events the client does not want', async () => {
  const orgId = await ledger.newOrg();
  const server = await serveEvents(ledger, { heartbeatMs: 10 });
  const picky = await follow(server, orgId, '/events?type=rare');
  const all = await follow(server, orgId);
  await submitMany(orgId, 1);
  const [unwanted] = await all.take(1);
  const passed = await transactionOf(orgId, unwanted?.id ?? '');
  while ((await transactionOf(orgId, picky.lastEventId)) <= passed) await picky.heartbeats(1);
  const resumed = await follow(server, orgId, `/events?last_event_id=${picky.lastEventId}`);
  const [rare] = [await ledger.submitOne({ orgId, type: 'rare' })];
  expect((await resumed.next())?.data.job_id).toBe(rare.id);
  expect((await picky.next())?.data.job_id).toBe(rare.id);
});

/** Without the job's submission: whether that is before "now" depends on what else runs on the database server. */
const FLOODED = '/events?state=RETRYING';

// Long reasons make large events; none is as long as these. Here no stream reads, which would be in the way of the lock.
beforeAll(() => ledger.db.api.query('ALTER TABLE millrace.records DROP CONSTRAINT transitions_are_legal'));

/** A client that asks for events and reads none of them until told. */
async function stall(server: EventServer, orgId: string) {
  const socket = await dial(server.port);
  socket.write(`GET /queue/v1${FLOODED} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${orgId}\r\n\r\n`);
  await new Promise((resolve) => socket.once('data', resolve));
  socket.pause();
  return socket;
}

/** Many events at small cost: more than the sockets between server and client can hold. */
async function flood(orgId: string, seq: number): Promise<void> {
  for (let from = 11; from < 11 + FLOOD; from += 100) {
    await ledger.db.api.query(
      `INSERT INTO millrace.records (id, at, org_id, from_state, to_state, priority, job_type, reason, seqs, ns)
       SELECT nextval('millrace.record_id'), now(), $1, 'running', 'retrying', 2, 't', $4, ARRAY[$2::int8], ARRAY[i] FROM generate_series($3::integer, $3::integer + 99) i`,
      [orgId, seq, from, 'x'.repeat(2_000)],
    );
  }
}

const FLOOD = 10_000;

test('a client that does not read is dropped with the place to resume; others lose nothing', async () => {
  const orgId = await ledger.newOrg();
  const reads = watchReads(ledger);
  const server = await serveEvents(ledger, { maxBuffered: 5_000, pageSize: 100, graceMs: 60_000 });
  await follow(server, await ledger.newOrg());
  const job = await ledger.submitOne({ orgId });
  const slow = await stall(server, orgId);
  const quick = await follow(server, orgId, FLOODED);
  // A stream that still reads what it missed does so at its own pace, and is not dropped.
  await reads.untilCaughtUp();
  const flooding = flood(orgId, job.seq);
  const quickEvents = quick.take(FLOOD);
  await flooding;
  expect((await quickEvents).at(-1)?.data.sequence).toBe(FLOOD + 10);
  slow.resume();
  await slow.whenClosed.catch(() => {});
  const text = slow.received();
  const [, data] = /event: error\ndata: (.*)\n/.exec(text) ?? [];
  const error = JSON.parse(data ?? '{}');
  expect(error).toMatchObject({ code: 'SLOW_CONSUMER', last_event_id: expect.any(String) });
  const told = [...text.matchAll(/"sequence":(\d+)/g)].map(([, n]) => Number(n));
  const resumed = await follow(server, orgId, FLOODED, { 'last-event-id': error.last_event_id });
  const rest = (await resumed.take(FLOOD - told.length)).map(({ data: { sequence } }) => sequence);
  expect([...told, ...rest]).toEqual(Array.from({ length: FLOOD }, (_, i) => 11 + i));
});

test('a client that does not even read the farewell is cut off', async () => {
  const orgId = await ledger.newOrg();
  const reads = watchReads(ledger);
  const server = await serveEvents(ledger, { maxBuffered: 500, pageSize: 100, graceMs: 1 });
  const bystander = await follow(server, await ledger.newOrg());
  const job = await ledger.submitOne({ orgId });
  await stall(server, orgId);
  await reads.untilCaughtUp();
  bystander.hangUp();
  await flood(orgId, job.seq);
  await until('the server has closed its connections', () => connectionsOf(server), 0);
});
