/** A road to the database that can be closed, or left open with nothing passing. */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type NetConnectOpts, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { type Database, openDatabase } from '../../src/ledger/driver/database.ts';

/** A server may listen on a Unix socket, whose folder is the encoded host of its URL. */
export function placeOf({ hostname, port }: URL): NetConnectOpts {
  const host = decodeURIComponent(hostname);
  return host.startsWith('/') ? { path: join(host, `.s.PGSQL.${port}`) } : { host, port: Number(port) };
}

export class DatabaseRoad {
  readonly #target: URL;
  readonly #sockets = new Set<Socket>();
  #server: Server | null = null;
  #port = 0;
  #isBlocked = false;

  constructor(target: string) {
    this.#target = new URL(target);
  }

  get url(): string {
    const url = new URL(this.#target);
    url.host = `127.0.0.1:${this.#port}`;
    return url.href;
  }

  async open(): Promise<void> {
    this.#server = createServer((near) => {
      if (this.#server === null) return void near.destroy(); // It came while the road was being closed.
      const far = connect(placeOf(this.#target));
      this.#join(near, far);
      this.#join(far, near);
    }).listen(this.#port, '127.0.0.1');
    await once(this.#server, 'listening');
    this.#port = (this.#server.address() as AddressInfo).port;
  }

  async close(): Promise<void> {
    const server = this.#server;
    this.#server = null;
    if (server === null) return;
    server.close();
    for (const socket of this.#sockets) socket.destroy();
    await once(server, 'close');
  }

  /** From here on everything sent is lost, and nobody is told. */
  block(): void {
    this.#isBlocked = true;
  }

  /** Old connections stay dead; new ones pass. */
  unblock(): void {
    this.#isBlocked = false;
  }

  #join(from: Socket, to: Socket): void {
    let isDead = false;
    this.#sockets.add(from);
    from.on('error', () => to.destroy());
    from.on('close', () => {
      this.#sockets.delete(from);
      to.destroy();
    });
    from.on('data', (bytes) => {
      isDead ||= this.#isBlocked;
      if (!isDead) to.write(bytes);
    });
  }
}

/** A database behind a road, until the test has finished. */
export async function openRoad(url: string): Promise<{ road: DatabaseRoad; database: Database }> {
  const road = new DatabaseRoad(url);
  await road.open();
  const database = openDatabase({ url: road.url });
  onTestFinished(async () => {
    await road.close();
    await database.close();
  });
  return { road, database };
}
