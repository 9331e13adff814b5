import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';

/**
 * A proxy that opens tunnels, and can die and come back at its address. While it is dead it hangs up on everybody and keeps its port, so that
 * no other process gets it.
 */
export class MortalProxy {
  readonly #sockets = new Set<Socket>();
  readonly #server = createServer();
  #isDead = false;
  port = 0;
  tunnels = 0;

  constructor() {
    this.#server.on('connection', (client: Socket) => {
      if (this.#isDead) client.destroy();
    });
    this.#server.on('connect', (request, client: Socket) => {
      this.tunnels++;
      const [host = '', port] = (request.url ?? '').split(':');
      const target = connect(Number(port), host, () => {
        client.write('HTTP/1.1 200 OK\r\n\r\n');
        target.pipe(client).pipe(target);
      });
      for (const socket of [client, target]) this.#sockets.add(socket.on('error', () => undefined));
    });
  }

  get url(): string {
    return `http://user:hunter2@127.0.0.1:${this.port}`;
  }

  async start(): Promise<void> {
    this.#isDead = false;
    if (this.#server.listening) return;
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    this.port = (this.#server.address() as AddressInfo).port;
  }

  die(): void {
    this.#isDead = true;
    this.#server.closeAllConnections();
    for (const socket of this.#sockets) socket.destroy();
  }

  close(): void {
    this.die();
    this.#server.close();
  }
}
