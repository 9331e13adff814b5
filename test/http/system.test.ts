import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { PROFILES } from '../../src/core/policy.ts';
import { Engine } from '../../src/engine/engine.ts';
import { queueDoor } from '../../src/http/queue/door.ts';
import type { ServerOptions } from '../../src/http/server.ts';
import { openDatabase } from '../../src/ledger/database.ts';
import { useLedger } from '../ledger/fixture.ts';
import { bodyOf, IDENTITY, post, type Served, serve } from './server-fixture.ts';

const ledger = useLedger();

/** A road to the database that can be closed, with or without a word. */
class Road {
  readonly #target: URL;
  readonly #sockets = new Set<Socket>();
  #server: Server | null = null;
  #port = 0;
  #isFrozen = false;

  constructor(target: string) {
    this.#target = new URL(target);
  }

  async open(): Promise<string> {
    this.#server = createServer((near) => {
      const far = connect(Number(this.#target.port), this.#target.hostname);
      for (const socket of [near, far]) {
        this.#sockets.add(socket);
        socket.on('error', () => {});
      }
      if (!this.#isFrozen) near.pipe(far).pipe(near);
      near.on('close', () => far.destroy());
      far.on('close', () => near.destroy());
    }).listen(this.#port, '127.0.0.1');
    await once(this.#server, 'listening');
    this.#port = (this.#server.address() as AddressInfo).port;
    const url = new URL(this.#target);
    url.host = `127.0.0.1:${this.#port}`;
    return url.href;
  }

  /** Connections stay and can be made, and nothing passes any more. */
  freeze(): void {
    this.#isFrozen = true;
    for (const socket of this.#sockets) socket.unpipe().pause();
  }

  async close(): Promise<void> {
    const server = this.#server;
    this.#server = null;
    if (server === null) return;
    server.close();
    for (const socket of this.#sockets) socket.destroy();
    this.#sockets.clear();
    await once(server, 'close');
  }
}

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function serveOver(url: string, options: Partial<ServerOptions> = {}): Promise<Served> {
  const database = openDatabase({ url });
  const engine = new Engine({ database, profile: PROFILES.gopherqueue });
  await engine.open();
  closing.push(() => database.close());
  await ledger.db.api.query(`INSERT INTO millrace.orgs (id, slug) VALUES ($1, 'caller') ON CONFLICT DO NOTHING`, [
    IDENTITY.orgId,
  ]);
  return serve({ engine, doors: [queueDoor], ...options });
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

  it('say that the server is ready when the database answers and a worker is alive', async () => {
    const { url } = await serveOver(ledger.db.url);
    const before = await fetch(`${url}/readyz`);
    expect(before.status).toBe(503);
    expect(before.headers.get('retry-after')).toBe('1');
    expect(await before.json()).toMatchObject({
      status: 'not_ready',
      ledger: { reachable: true },
      workers: 0,
      reasons: ['No worker is alive: jobs are accepted and wait.'],
    });
    const worker = await ledger.registerWorker();
    expect((await fetch(`${url}/readyz`)).status).toBe(503); // It handles nothing.
    await ledger.db.api.query(`UPDATE millrace.workers SET types = '{echo}' WHERE id = $1`, [worker]);
    const after = await fetch(`${url}/readyz`);
    expect({ status: after.status, body: await bodyOf(after) }).toMatchObject({
      status: 200,
      body: { status: 'ready', workers: 1, reasons: [] },
    });
    await ledger.db.api.query(`UPDATE millrace.workers SET beat_at = millrace.clock() - interval '1 minute'`);
    expect((await fetch(`${url}/readyz`)).status).toBe(503);
  });
});

describe('when the database is away', () => {
  async function answerTimes(url: string): Promise<void> {
    const requests = [
      ...Array.from({ length: 20 }, (_, n) => submit(url, `lost-${n}`)),
      fetch(`${url}/queue/v1/jobs`, { headers: GOOD }),
      fetch(`${url}/queue/v1/jobs/3f2b8c1e-5d4a-4f6b-9c7d-8e9f0a1b2c3d`, { headers: GOOD }),
      fetch(`${url}/queue/v1/stats`, { headers: GOOD }),
    ];
    const startedAtMs = performance.now();
    for (const answer of await Promise.all(requests)) {
      expect(performance.now() - startedAtMs).toBeLessThan(2_000);
      expect(answer.status).toBe(503);
      expect(Number(answer.headers.get('retry-after'))).toBeGreaterThanOrEqual(1);
      expect((await bodyOf(answer)).code).toBe('UNAVAILABLE');
    }
  }

  it('every answer is 503 with Retry-After within 2 s, the process is alive, and all is well 2 s after its return', async () => {
    const road = new Road(ledger.db.url);
    closing.push(() => road.close());
    const { url } = await serveOver(await road.open());
    expect((await submit(url, 'before')).status).toBe(202);
    await road.close();
    await answerTimes(url);
    expect((await fetch(`${url}/healthz`)).status).toBe(200);
    const ready = await fetch(`${url}/readyz`);
    expect({ status: ready.status, body: await bodyOf(ready) }).toMatchObject({
      status: 503,
      body: {
        status: 'not_ready',
        ledger: { reachable: false },
        workers: null,
        reasons: ['The database does not answer.'],
      },
    });
    await road.open();
    await expect.poll(async () => (await submit(url, 'after')).status, { timeout: 2_000 }).toBeLessThan(300);
  });

  it('and says nothing at all, answers still come within the time that a request has', async () => {
    const road = new Road(ledger.db.url);
    const { url } = await serveOver(await road.open(), { requestTimeoutMs: 1_000 });
    closing.push(() => road.close());
    expect((await submit(url, 'first')).status).toBe(202);
    road.freeze();
    await answerTimes(url);
    const startedAtMs = performance.now();
    expect((await fetch(`${url}/readyz`)).status).toBe(503);
    expect(performance.now() - startedAtMs).toBeLessThan(1_500);
  });
});
