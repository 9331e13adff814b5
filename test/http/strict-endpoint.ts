/** An endpoint that a test makes accept or refuse messages. It keeps the type and the path of all it received. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';

export type Call = { readonly path: string; readonly type: string; readonly signature: string };

export class StrictEndpoint {
  readonly calls: Call[] = [];
  status = 200;
  /** What a call waits for before it is answered. */
  hold: () => Promise<void> = async () => {};
  readonly #server = createServer(async (request, response) => {
    let body = '';
    for await (const chunk of request.setEncoding('utf8')) body += chunk;
    const { url: path = '', headers } = request;
    this.calls.push({ path, type: JSON.parse(body).type, signature: String(headers['webhook-signature']) });
    await this.hold();
    response.writeHead(this.status).end();
  });

  static async open(host = '127.0.0.1'): Promise<StrictEndpoint> {
    const endpoint = new StrictEndpoint();
    const server = endpoint.#server;
    await new Promise<void>((resolve) => server.listen({ host, port: 0 }, resolve));
    onTestFinished(() => {
      server.closeAllConnections();
      server.close();
    });
    return endpoint;
  }

  url(path: string): string {
    const { address, port } = this.#server.address() as AddressInfo;
    return `http://${address}:${port}${path}`;
  }

  typesAt(path: string): string[] {
    return this.calls.filter((call) => call.path === path).map(({ type }) => type);
  }
}
