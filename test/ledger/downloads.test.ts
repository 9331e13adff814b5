import { afterEach, describe, expect, test } from 'vitest';
import { GateSession } from '../../src/ledger/downloads/gate-session.ts';
import { findDeadGates, pingGate, removeGates } from '../../src/ledger/downloads/gates.ts';
import { askForPlaces, type PlaceRequest } from '../../src/ledger/downloads/host-places.ts';
import { forgetDownloadHosts, listHosts, setHostPaused } from '../../src/ledger/downloads/hosts.ts';
import { listProxies, pausedPools, reportProxies, setPoolPaused } from '../../src/ledger/downloads/proxies.ts';
import { until } from '../until.ts';
import { useLedger } from './fixture.ts';
import { opened, patientUrl } from './patient.ts';

const ledger = useLedger();
const sessions: GateSession[] = [];
afterEach(async () => {
  await Promise.all(sessions.splice(0).map((session) => session.close()));
});

async function openSession(): Promise<GateSession> {
  const session = await opened(() => GateSession.open(patientUrl(ledger.db.url)));
  sessions.push(session);
  return session;
}

let hosts = 0;
const newHost = (): string => `host-${++hosts}.test`;

const NOTHING = { requests: 0, bytes: 0, errors: 0, successes: 0, isThrottled: false, pauseMs: null, starts: 0, inUse: 0 };

function ask(session: GateSession, host: string, wanted: number, rest: Partial<PlaceRequest> = {}) {
  return askForPlaces(session, { gateId: session.gateId, host, wanted, concurrency: 3, rate: null, ...NOTHING, ...rest });
}

const viewOf = async (host: string) =>
  (await listHosts(ledger.db.api, { limit: 1_000, limits: { concurrency: 3, rate: 5 } })).find((view) => view.host === host);

describe('places at a host', () => {
  test('are never more than the limit, also when processes ask at the same moment', async () => {
    const host = newHost();
    const processes = await Promise.all(Array.from({ length: 4 }, openSession));
    const answers = await Promise.all(processes.map((session) => ask(session, host, 3)));
    expect(answers.reduce((sum, { held }) => sum + held, 0)).toBe(3);
    expect(await viewOf(host)).toMatchObject({ running: 3 });
  });

  test('go to the process that has waited longest', async () => {
    const host = newHost();
    const [first, second, third] = (await Promise.all([openSession(), openSession(), openSession()])) as [
      GateSession,
      GateSession,
      GateSession,
    ];
    expect(await ask(first, host, 3)).toMatchObject({ held: 3, othersWait: false });
    expect(await ask(second, host, 3)).toMatchObject({ held: 0 });
    expect(await ask(third, host, 3)).toMatchObject({ held: 0 });
    // The first one gives two back and wants them again: one for each that waits is left alone.
    expect(await ask(first, host, 1, { inUse: 1 })).toMatchObject({ held: 1, othersWait: true });
    expect(await ask(first, host, 3, { inUse: 1 })).toMatchObject({ held: 1 });
    expect(await ask(third, host, 3)).toMatchObject({ held: 1 });
    expect(await ask(second, host, 3)).toMatchObject({ held: 1 });
    expect(await ask(second, host, 0)).toMatchObject({ held: 0 });
  });

  test('in use are kept when the limit falls, and a process that was taken for dead has none', async () => {
    const host = newHost();
    const session = await openSession();
    await ask(session, host, 3);
    expect(await ask(session, host, 3, { inUse: 3, concurrency: 1 })).toMatchObject({ held: 3, allowed: 1 });
    await removeGates(ledger.db.maintenance, [session.gateId]);
    expect(await pingGate(session, session.gateId)).toBe(false);
    const other = await openSession();
    expect(await ask(other, host, 3)).toMatchObject({ held: 3 });
    expect(await ask(session, host, 3, { inUse: 3 })).toMatchObject({ held: 0 });
  });

  test('of a session that ended are found and freed; those of a living one are not', async () => {
    const [host, living, dying] = [newHost(), await openSession(), await openSession()];
    await ask(living, host, 1);
    await ask(dying, host, 2);
    expect(await findDeadGates(ledger.db.maintenance)).not.toContain(dying.gateId);
    await dying.close();
    await until('the end is seen', async () => (await findDeadGates(ledger.db.maintenance)).includes(dying.gateId));
    expect(await findDeadGates(ledger.db.maintenance)).not.toContain(living.gateId);
    expect(await ask(living, host, 3, { inUse: 1 })).toMatchObject({ held: 1 });
    expect(await removeGates(ledger.db.maintenance, [dying.gateId])).toEqual([dying.gateId]);
    expect(await ask(living, host, 3, { inUse: 1 })).toMatchObject({ held: 3 });
  });

  test('are not given while the host is paused or asked for a pause', async () => {
    const [host, session] = [newHost(), await openSession()];
    await setHostPaused(ledger.db.api, host, true);
    expect(await ask(session, host, 2)).toMatchObject({ held: 0, isPaused: true });
    await setHostPaused(ledger.db.api, host, false);
    expect(await ask(session, host, 2)).toMatchObject({ held: 2, isPaused: false, backoffMs: 0 });
    const throttled = await ask(session, host, 2, { inUse: 1, isThrottled: true, pauseMs: 600_000, requests: 1, errors: 1 });
    expect(throttled).toMatchObject({ held: 1, allowed: 1, backoffMs: expect.closeTo(600_000, -4) });
    expect(await viewOf(host)).toMatchObject({ requests: 1, errors: 1, rate: 5, backoffUntil: expect.any(Date) });
  });

  test('with a rate come with times that follow each other, over all processes', async () => {
    const [host, one, other] = [newHost(), await openSession(), await openSession()];
    const rate = { rate: 0.01, starts: 2 };
    expect((await ask(one, host, 1, rate)).startInMs).toBeLessThan(1_000);
    expect((await ask(other, host, 1, rate)).startInMs).toBeGreaterThan(150_000);
    expect((await ask(one, host, 1, { ...rate, inUse: 1 })).startInMs).toBeGreaterThan(350_000);
  });
});

describe('hosts', () => {
  test('that nobody called for a day are forgotten, but not those that are paused or in use', async () => {
    const [old, paused, used, recent] = [newHost(), newHost(), newHost(), newHost()];
    const session = await openSession();
    for (const host of [old, paused, recent]) await ask(session, host, 0);
    await ask(session, used, 1);
    await setHostPaused(ledger.db.api, paused, true);
    const age = (host: string) =>
      ledger.db.maintenance.query(`UPDATE millrace.download_hosts SET used_at = millrace.clock() - interval '25 hours' WHERE host = $1`, [
        host,
      ]);
    for (const host of [old, paused, used]) await age(host);
    await forgetDownloadHosts(ledger.db.maintenance);
    const left = await Promise.all([old, paused, used, recent].map(async (host) => (await viewOf(host)) !== undefined));
    expect(left).toEqual([false, true, true, true]);
  });

  test('are forgotten sooner if there are very many, so that hostile names cannot fill the table', async () => {
    await ledger.db.maintenance.query(
      `INSERT INTO millrace.download_hosts (host, used_at) SELECT 'many-' || n, millrace.clock() - n * interval '1 minute' FROM generate_series(1, 100) n`,
    );
    const removed = await forgetDownloadHosts(ledger.db.maintenance, { keep: 40 });
    expect(removed).toBeGreaterThanOrEqual(50);
    const { rows } = await ledger.db.maintenance.query(
      `SELECT max(substr(host, 6)::int4) AS oldest FROM millrace.download_hosts WHERE host LIKE 'many-%'`,
    );
    expect(rows[0].oldest).toBeGreaterThanOrEqual(10);
    await forgetDownloadHosts(ledger.db.maintenance, { keep: 0 });
  });

  test('are listed in pages, in the order of their bytes', async () => {
    const limits = { concurrency: 3, rate: null };
    for (const host of ['page-b', 'page-a', 'page-Ä', 'page-__proto__']) await setHostPaused(ledger.db.api, host, false);
    const first = await listHosts(ledger.db.api, { after: 'page-', limit: 2, limits });
    expect(first.map(({ host }) => host)).toEqual(['page-__proto__', 'page-a']);
    const next = await listHosts(ledger.db.api, { after: 'page-a', limit: 2, limits });
    expect(next.map(({ host }) => host)).toEqual(['page-b', 'page-Ä']);
  });

  test('with a name that no URL can have are refused by the table', async () => {
    await expect(setHostPaused(ledger.db.api, 'x'.repeat(301), true)).rejects.toThrow();
    await expect(setHostPaused(ledger.db.api, '', true)).rejects.toThrow();
  });
});

describe('proxy pools', () => {
  test('add up what processes report, and keep the newest score', async () => {
    const report = { pool: '__proto__', address: 'http://10.0.0.1:1', score: 0.5, ejectedMs: 60_000, successes: 2, failures: 3 };
    await reportProxies(ledger.db.maintenance, [report, { ...report, pool: 'constructor', ejectedMs: null }]);
    await reportProxies(ledger.db.maintenance, [{ ...report, score: 0.25 }]);
    const rows = await listProxies(ledger.db.api);
    expect(rows).toEqual([
      { pool: '__proto__', address: 'http://10.0.0.1:1', score: 0.25, ejectedUntil: expect.any(Date), successes: 4, failures: 6 },
      { pool: 'constructor', address: 'http://10.0.0.1:1', score: 0.5, ejectedUntil: null, successes: 2, failures: 3 },
    ]);
  });

  test('are paused and resumed for all processes, however often that is said', async () => {
    for (let n = 0; n < 2; n++) await setPoolPaused(ledger.db.api, 'proxies/eu', true);
    expect(await pausedPools(ledger.db.maintenance)).toEqual(new Set(['proxies/eu']));
    for (let n = 0; n < 2; n++) await setPoolPaused(ledger.db.api, 'proxies/eu', false);
    expect(await pausedPools(ledger.db.maintenance)).toEqual(new Set());
  });
});
