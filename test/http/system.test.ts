import { afterEach, describe, expect, it } from 'vitest';
import { PROFILES } from '../../src/core/policy.ts';
import type { ServerOptions } from '../../src/http/server.ts';
import { type Database, openDatabase } from '../../src/ledger/driver/database.ts';
import { createEngine } from '../../src/services/jobs/create-engine.ts';
import { DatabaseRoad } from '../ledger/database-road.ts';
import { useLedger } from '../ledger/fixture.ts';
import { until } from '../until.ts';
import { queueDoor } from './queue-door.ts';
import { bodyOf, IDENTITY, post, type Served, serve } from './server-fixture.ts';

const ledger = useLedger();

/** Far less than a request may take here, and far more than a busy machine takes. */
const SOON_MS = 15_000;
const REQUEST_MS = 60_000;

const closing: (() => Promise<unknown>)[] = [];
// The road comes first: sessions over one that lets nothing pass would wait for a farewell.
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

async function openedRoad(): Promise<DatabaseRoad> {
  const road = new DatabaseRoad(ledger.db.url);
  await road.open();
  closing.push(() => road.close());
  return road;
}

async function serveOver(url: string, options: Partial<ServerOptions> = {}): Promise<Served & { database: Database }> {
  const database = openDatabase({ url });
  const engine = createEngine({ database, profile: PROFILES.gopherqueue });
  await engine.open();
  closing.push(() => database.close());
  await ledger.db.api.query(`INSERT INTO millrace.orgs (id, slug) VALUES ($1, 'caller') ON CONFLICT DO NOTHING`, [IDENTITY.orgId]);
  return { ...(await serve({ engine, doors: [queueDoor], ...options })), database };
}

const GOOD = { authorization: 'Bearer good' };
const submit = (url: string, key: string) =>
  post(`${url}/queue/v1/jobs`, JSON.stringify({ type: 'echo', payload: {}, idempotency_key: key }), GOOD);

describe('the system routes', () => {
  it('say that the process is alive, and which version it is, without a key', async () => {
    const { url } = await serve();
    expect(await (await fetch(`${url}/healthz`)).json()).toEqual({ status: 'ok' });
    expect(await (await fetch(`${url}/version`)).json()).toEqual({
      name: 'millrace',
      version: '1.2.3',
      node: process.versions.node,
    });
  });

  it('say that the server is ready without a worker, and warn of it; a caller may require one [FR-14.30] [FR-14.89]', async () => {
    const { url } = await serveOver(ledger.db.url);
    const NO_WORKER = {
      code: 'RFA_EXEC_WORKER_UNAVAILABLE',
      message: 'No worker is alive. Jobs are accepted, but wait for a worker.',
    };
    const warned = await fetch(`${url}/readyz`);
    expect({ status: warned.status, body: await bodyOf(warned) }).toEqual({
      status: 200,
      body: {
        ...{ status: 'ready', ledger: { reachable: true, latency_ms: expect.any(Number) }, workers: 0 },
        ...{ reasons: [], warnings: [NO_WORKER] },
      },
    });
    expect((await submit(url, 'without a worker')).status).toBe(202);
    const required = `${url}/readyz?workers=required`;
    const before = await fetch(required);
    expect(before.headers.get('retry-after')).toBe('1');
    expect({ status: before.status, body: await bodyOf(before) }).toMatchObject({
      status: 503,
      body: { status: 'not_ready', code: NO_WORKER.code, ledger: { reachable: true }, workers: 0, reasons: [NO_WORKER.message] },
    });
    const worker = await ledger.registerWorker();
    expect((await fetch(required)).status).toBe(503); // It handles nothing.
    await ledger.db.api.query(`UPDATE millrace.workers SET types = '{echo}' WHERE id = $1`, [worker]);
    for (const address of [required, `${url}/readyz`]) {
      const after = await fetch(address);
      expect({ status: after.status, body: await bodyOf(after) }).toMatchObject({
        status: 200,
        body: { status: 'ready', workers: 1, reasons: [], warnings: [] },
      });
    }
    await ledger.db.api.query(`UPDATE millrace.workers SET beat_at = millrace.clock() - interval '1 minute'`);
    expect((await fetch(required)).status).toBe(503);
    expect((await fetch(`${url}/readyz?workers=optional`)).status).toBe(400);
  });
});

describe('when the database is away', () => {
  async function expectRefusals(url: string): Promise<void> {
    const requests = [
      ...Array.from({ length: 20 }, (_, n) => submit(url, `lost-${n}`)),
      fetch(`${url}/queue/v1/jobs`, { headers: GOOD }),
      fetch(`${url}/queue/v1/jobs/3f2b8c1e-5d4a-4f6b-9c7d-8e9f0a1b2c3d`, { headers: GOOD }),
      fetch(`${url}/queue/v1/stats`, { headers: GOOD }),
    ];
    for (const answer of await Promise.all(requests)) {
      expect(answer.status).toBe(503);
      expect(Number(answer.headers.get('retry-after'))).toBeGreaterThanOrEqual(1);
      expect((await bodyOf(answer)).code).toBe('UNAVAILABLE');
    }
  }

  it('every answer is a quick 503 with Retry-After, the process stays alive, and recovers with the database', async () => {
    const road = await openedRoad();
    const { url } = await serveOver(road.url, { requestTimeoutMs: REQUEST_MS });
    expect((await submit(url, 'before')).status).toBe(202);
    await road.close();
    const startedAtMs = performance.now();
    await expectRefusals(url);
    expect(performance.now() - startedAtMs).toBeLessThan(SOON_MS);
    expect((await fetch(`${url}/healthz`)).status).toBe(200);
    const ready = await fetch(`${url}/readyz`);
    expect({ status: ready.status, body: await bodyOf(ready) }).toMatchObject({
      status: 503,
      body: {
        status: 'not_ready',
        code: 'DATABASE_UNREACHABLE',
        ledger: { reachable: false },
        workers: null,
        reasons: ['The database does not respond.'],
      },
    });
    await road.open();
    await until(
      'a submission is accepted again',
      async () => (await submit(url, 'after')).status,
      (status) => status < 300,
    );
  });

  it('and says nothing at all, answers still come within the time that a request has', async () => {
    const road = await openedRoad();
    const { url, database } = await serveOver(road.url, { requestTimeoutMs: 1_000 });
    expect((await submit(url, 'first')).status).toBe(202);
    const ask = () => database.api.query('SELECT');
    await Promise.all([ask(), ask()]); // Two sessions, one for each question below.
    road.block();
    /** It is not the session that ends the wait, by giving up its statement. */
    const beforeGivenUp = async (work: () => Promise<unknown>) => {
      let isGivenUp = false;
      ask().catch(() => {
        isGivenUp = true;
      });
      await work();
      expect(isGivenUp).toBe(false);
    };
    await beforeGivenUp(() => expectRefusals(url));
    await beforeGivenUp(async () => expect((await fetch(`${url}/readyz`)).status).toBe(503));
  });
});
