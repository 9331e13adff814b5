import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { until } from '../until.ts';
import { IngestServer, manifest } from './ingest-fixture.ts';

/** Stands between the server and PostgreSQL, and can cut them off. */
class Cable {
  readonly #sockets = new Set<Socket>();
  #isCut = false;
  port = 0;
  readonly #server = createServer((client) => {
    if (this.#isCut) return void client.destroy();
    const { hostname, port } = new URL(inject('postgresUrl'));
    const host = decodeURIComponent(hostname);
    const target = host.startsWith('/') ? connect(`${host}/.s.PGSQL.${port || 5432}`) : connect(Number(port || 5432), host);
    for (const socket of [client, target]) this.#sockets.add(socket.on('error', () => undefined));
    client.pipe(target).pipe(client);
  });

  async open(): Promise<void> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    this.port = (this.#server.address() as AddressInfo).port;
  }

  cut(): void {
    this.#isCut = true;
    for (const socket of this.#sockets) socket.destroy();
    this.#sockets.clear();
  }

  mend(): void {
    this.#isCut = false;
  }

  close(): void {
    this.#server.close();
  }
}

const cable = new Cable();
let server: IngestServer;

beforeAll(async () => {
  await cable.open();
  server = new IngestServer({ reachedAt: cable.port });
  await server.open();
});
afterAll(async () => {
  await server.close();
  cable.close();
});

const healthOf = async () => {
  const { status, body } = await server.get('/health', null);
  const { ledger, stream, storage } = body.components;
  return [status, body.status, ledger.status, stream.status, storage.status];
};
/** Waits longer than our sessions do for loops that use the table. */
const rename = (from: string, to: string) =>
  server.database.maintenance.query(`SET LOCAL lock_timeout = '25s'; ALTER TABLE millrace.${from} RENAME TO ${to}`);
const HEALTHY = [200, 'healthy', 'healthy', 'healthy', 'healthy'];

test('the health is 503 while the database is away, a submission is refused, and both recover [FB-1.50] [FB-2.22]', async () => {
  await until('all is well', healthOf, HEALTHY);
  cable.cut();
  // A component that a busy machine delays by two seconds is unhealthy, too, so one look is not enough.
  await until('the database is seen to be away', healthOf, [503, 'unhealthy', 'unhealthy', 'unhealthy', 'healthy']);
  const { status, body } = await server.submit({ body: manifest(), headers: { 'x-fetchbox-idempotency-key': 'outage' } });
  expect([status, body.error.code]).toEqual([500, 'INTERNAL_ERROR']);
  cable.mend();
  await until('all is well again', healthOf, HEALTHY);
  await until(
    'the same request is accepted',
    async () => (await server.submit({ body: manifest(), headers: { 'x-fetchbox-idempotency-key': 'outage' } })).status,
    202,
  );
  const { rows } = await server.database.api.query('SELECT count(*)::int4 AS n FROM millrace.ingest_jobs');
  expect(rows[0].n).toBe(1);
});

test('the health is 503 while the streams are away, and a submission leaves nothing behind [FB-1.49] [FB-1.50] [FB-2.22]', async () => {
  await until('all is well', healthOf, HEALTHY);
  const count = async () => (await server.database.api.query('SELECT count(*)::int4 AS n FROM millrace.ingest_jobs')).rows[0].n;
  const before = await count();
  await rename('streams', 'streams_away');
  try {
    await until('the streams are seen to be away', healthOf, [503, 'unhealthy', 'healthy', 'unhealthy', 'healthy']);
    const { status, body } = await server.submit({ body: manifest() });
    expect([status, body.error.code]).toEqual([500, 'INTERNAL_ERROR']);
    expect(await count()).toBe(before);
  } finally {
    await rename('streams_away', 'streams');
  }
  await until('all is well again', healthOf, HEALTHY);
});
