import type { AddressInfo } from 'node:net';
import type { Http } from '../../src/http/door.ts';
import type { KeyAuthenticator } from '../../src/http/shared/key-authenticator.ts';

/** Servers on ports of their own, until all are closed. */
export class Listening {
  readonly #servers: Http[] = [];

  /** Answers its address. */
  async add(http: Http): Promise<string> {
    this.#servers.push(http);
    await http.listen({ port: 0, host: '127.0.0.1' });
    return `http://127.0.0.1:${(http.server.address() as AddressInfo).port}`;
  }

  /** With their authenticators, which would note the use of their keys up to ten seconds later, while another test file runs. */
  async close(): Promise<void> {
    for (const http of this.#servers) {
      http.server.closeAllConnections();
      await http.close();
      const { authenticator } = http as { authenticator?: Partial<KeyAuthenticator> };
      await authenticator?.close?.();
    }
  }
}
