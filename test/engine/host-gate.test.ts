import { randomUUID } from 'node:crypto';
import { afterEach, describe, expect, test } from 'vitest';
import type { HostEntry, HostLimits } from '../../src/core/ingest/host-gate.ts';
import { SharedHostGate } from '../../src/engine/downloads/shared-host-gate.ts';
import { EventHub } from '../../src/engine/events.ts';
import { listHosts, setHostPaused } from '../../src/ledger/downloads/hosts.ts';
import { DatabaseRoad } from '../ledger/database-road.ts';
import { useLedger } from '../ledger/fixture.ts';
import { until } from '../until.ts';

const ledger = useLedger();
const gates: SharedHostGate[] = [];
const NEVER = new AbortController().signal;
const OK = { bytes: 10, status: 200, failed: false } as const;

afterEach(async () => {
  await Promise.all(gates.splice(0).map((gate) => gate.stop()));
});

/** Another process, as far as the ledger can tell. */
function openGate(limits: Partial<HostLimits> = {}): SharedHostGate {
  const gate = new SharedHostGate({ database: ledger.db, events: new EventHub(), limits: { concurrency: 2, rate: null, ...limits } });
  gate.start();
  gates.push(gate);
  return gate;
}

const newHost = (): string => `${randomUUID()}.test`;

async function entered(gate: SharedHostGate, host: string, orgId?: string): Promise<HostEntry> {
  for (;;) {
    const result = await gate.enter(host, NEVER, orgId === undefined ? {} : { orgId });
    if (result.kind === 'entered') return result;
  }
}

const viewOf = async (host: string, concurrency = 2) =>
  (await listHosts(ledger.db.api, { limit: 1_000, limits: { concurrency, rate: null } })).find((view) => view.host === host);

/** Ends the session of every gate, as an administrator or a failing server would. */
const endSessions = () =>
  ledger.db.maintenance.query(
    `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'millrace downloads' AND datname = current_database()`,
  );

test('a host has no more requests in flight than its limit, over all processes', async () => {
  const host = newHost();
  const processes = [openGate(), openGate(), openGate()];
  let inFlight = 0;
  let most = 0;
  const work = async (gate: SharedHostGate) => {
    for (let n = 0; n < 20; n++) {
      const entry = await entered(gate, host);
      most = Math.max(most, ++inFlight);
      await new Promise((resolve) => setImmediate(resolve));
      inFlight--;
      entry.leave(OK);
    }
  };
  await Promise.all(processes.flatMap((gate) => [work(gate), work(gate), work(gate)]));
  expect(most).toBe(2);
  await until('all requests are counted', async () => (await viewOf(host))?.requests ?? 0, 180);
  expect(await viewOf(host)).toMatchObject({ host, bytes: 1_800, errors: 0, concurrency: 2, backoffUntil: null, paused: false });
  await until('the places are given back', async () => (await viewOf(host))?.running === 0);
});

test('a process that uses a host alone gives places to another that waits', async () => {
  const host = newHost();
  const [busy, other] = [openGate({ concurrency: 1 }), openGate({ concurrency: 1 })];
  let isDone = false;
  let count = 0;
  const flood = async () => {
    while (!isDone) {
      const entry = await entered(busy, host);
      count++;
      await new Promise((resolve) => setImmediate(resolve));
      entry.leave(OK);
    }
  };
  const flooding = Promise.all([flood(), flood(), flood()]);
  await until('the first process has the host', () => count > 10);
  (await entered(other, host)).leave(OK);
  isDone = true;
  await flooding;
});

test('orgs take turns at a host, however many tasks one of them has', async () => {
  const host = newHost();
  const gate = openGate({ concurrency: 1 });
  const first = await entered(gate, host, 'many');
  const order: string[] = [];
  const enter = async (orgId: string) => {
    const entry = await gate.enter(host, NEVER, { orgId });
    if (entry.kind === 'later') return;
    order.push(orgId);
    entry.leave(OK);
  };
  const waiting = [...Array.from({ length: 10 }, () => 'many'), 'one'].map(enter);
  first.leave(OK);
  await Promise.all(waiting);
  expect(order.indexOf('one')).toBeLessThanOrEqual(1);
});

test('a task that finds a host full is sent away, and the tasks of an org get times one after the other', async () => {
  const host = newHost();
  const gate = openGate({ concurrency: 1 });
  const holder = await entered(gate, host, 'many');
  const results = await Promise.all(Array.from({ length: 30 }, () => gate.enter(host, NEVER, { orgId: 'many' })));
  holder.leave(OK);
  const times = results.flatMap((result) => (result.kind === 'later' ? [result.retryAfterMs] : []));
  expect(times.length).toBe(30);
  expect(Math.min(...times)).toBeGreaterThanOrEqual(1_000);
  expect(Math.max(...times)).toBeGreaterThan(Math.min(...times));
});

test('a waiting task leaves when its signal aborts', async () => {
  const host = newHost();
  const gate = openGate({ concurrency: 1 });
  const holder = await entered(gate, host);
  const caller = new AbortController();
  const waiting = gate.enter(host, caller.signal);
  caller.abort(new Error('no longer wanted'));
  await expect(waiting).rejects.toThrow('no longer wanted');
  await expect(gate.enter(host, caller.signal)).rejects.toThrow('no longer wanted');
  holder.leave(OK);
  (await entered(gate, host)).leave(OK);
});

test('requests to a host start no faster than its rate, over all processes', async () => {
  const host = newHost();
  const rate = 20;
  const processes = [openGate({ concurrency: 10, rate }), openGate({ concurrency: 10, rate })];
  const startsMs: number[] = [];
  const work = async (gate: SharedHostGate) => {
    for (let n = 0; n < 5; n++) {
      const entry = await entered(gate, host);
      startsMs.push(performance.now());
      entry.leave(OK);
    }
  };
  await Promise.all(processes.flatMap((gate) => [work(gate), work(gate), work(gate), work(gate)]));
  startsMs.sort((one, other) => one - other);
  // Each process has reserved up to four starts when the first one happens, and all of these may be late. Every other start was reserved
  // after that, one interval behind another. Two processes with a rate of their own would need half of the time.
  const reserved = 4 * processes.length;
  expect((startsMs.at(-1) as number) - (startsMs[0] as number)).toBeGreaterThan(((startsMs.length - reserved - 1) * 1_000) / rate - 1);
});

describe('a host that asks for a pause', () => {
  test.each([429, 503])('with status %i gets none, and half as many requests afterwards', async (status) => {
    const host = newHost();
    const [one, other] = [openGate({ concurrency: 8 }), openGate({ concurrency: 8 })];
    const entries = [await entered(one, host), await entered(one, host)];
    for (const entry of entries) entry.leave({ bytes: 0, status, failed: true, retryAfterMs: 60_000 });
    await until('the pause is known', async () => (await viewOf(host, 8))?.backoffUntil !== null);
    for (const gate of [one, other]) {
      expect(await gate.enter(host, NEVER)).toMatchObject({ kind: 'later', retryAfterMs: expect.closeTo(61_000, -5) });
    }
    await until('both are counted', async () => (await viewOf(host, 8))?.errors === 2);
    // Two responses of one moment count as one.
    expect(await viewOf(host, 8)).toMatchObject({ concurrency: 4 });
    await ledger.db.maintenance.query(`UPDATE millrace.download_hosts SET backoff_until = millrace.clock() WHERE host = $1`, [host]);
    const another = openGate({ concurrency: 8 });
    for (let n = 0; n < 10; n++) (await entered(another, host)).leave(OK);
    await until('successes raise the limit again', async () => (await viewOf(host, 8))?.concurrency === 5);
  });

  test('without a time gets longer pauses each time', async () => {
    const host = newHost();
    const pauses: number[] = [];
    const sql = async (text: string, values: unknown[] = [host]) => (await ledger.db.maintenance.query(text, values)).rows[0];
    for (let n = 0; n < 3; n++) {
      const entry = await entered(openGate(), host);
      const { before } = await sql('SELECT millrace.clock() AS before', []);
      entry.leave({ bytes: 0, status: 429, failed: true });
      const strikes = 'SELECT strikes FROM millrace.download_hosts WHERE host = $1';
      await until('the pause is known', async () => (await sql(strikes)).strikes, n + 1);
      const length = 'SELECT extract(epoch FROM backoff_until - $2::timestamptz)::float8 AS s FROM millrace.download_hosts WHERE host = $1';
      pauses.push((await sql(length, [host, before])).s);
      await sql('UPDATE millrace.download_hosts SET backoff_until = millrace.clock() WHERE host = $1');
    }
    // Measured from before the response: a slow machine can only make them longer.
    for (const [n, seconds] of [1, 2, 4].entries()) expect(pauses[n]).toBeGreaterThanOrEqual(seconds);
  });
});

test('a paused host gets no request from any process until it is resumed', async () => {
  const host = newHost();
  const gate = openGate();
  (await entered(gate, host)).leave(OK);
  await setHostPaused(ledger.db.api, host, true);
  await until('the process has noticed', async () => (await gate.enter(host, NEVER)).kind === 'later');
  expect(await openGate().enter(host, NEVER)).toMatchObject({ kind: 'later' });
  expect(await viewOf(host)).toMatchObject({ paused: true });
  await setHostPaused(ledger.db.api, host, false);
  (await entered(gate, host)).leave(OK);
});

test('a process that loses its session ends its requests before another may take the places', async () => {
  const host = newHost();
  const gate = openGate({ concurrency: 1 });
  const entry = await entered(gate, host);
  const other = openGate({ concurrency: 1 });
  expect(entry.isLost).toBe(false);
  await endSessions();
  const next = await entered(other, host);
  expect(entry.isLost).toBe(true);
  entry.leave(OK);
  next.leave(OK);
  (await entered(gate, host)).leave(OK);
});

test('a process whose connection to the database hangs ends its requests, and its place stays taken until the server notices', async () => {
  const host = newHost();
  const road = new DatabaseRoad(ledger.db.url);
  await road.open();
  const limits = { concurrency: 1, rate: null };
  const gate = new SharedHostGate({ database: { ...ledger.db, url: road.url }, events: new EventHub(), limits });
  gate.start();
  gates.push(gate);
  const entry = await entered(gate, host);
  const other = openGate(limits);
  road.block();
  const next = entered(other, host);
  await until('the process has ended its request', () => entry.isLost);
  // The session still exists, as far as the server knows.
  expect(await viewOf(host, 1)).toMatchObject({ running: 1 });
  await road.close();
  (await next).leave(OK);
  entry.leave(OK);
});

test('a name of a host is only text', async () => {
  const gate = openGate();
  for (const host of ['__proto__', 'constructor', "';drop", 'ä.test', 'x'.repeat(300)]) (await entered(gate, host)).leave(OK);
  await until('they are counted', async () => (await viewOf('__proto__'))?.requests === 1);
});
