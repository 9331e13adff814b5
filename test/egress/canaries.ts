import { once } from 'node:events';
import { createServer, type Server } from 'node:net';

/** Listeners on every address of this machine, in both families, that count who comes. */
export type Canaries = { readonly port: number; accepted(): number; close(): Promise<void> };

export async function openCanaries(): Promise<Canaries> {
  let accepted = 0;
  const canary = () =>
    createServer((socket) => {
      accepted++;
      socket
        .on('error', () => undefined)
        .resume()
        .end('HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\ncanary');
    });
  const close = (server: Server) => once(server.close(), 'close');
  for (;;) {
    const [v4, v6] = [canary(), canary()];
    const port = await listen(v4, '0.0.0.0', 0);
    try {
      await listen(v6, '::', port);
    } catch (error) {
      // A port that is free in one family may be taken in the other.
      await close(v4);
      if ((error as NodeJS.ErrnoException).code === 'EADDRINUSE') continue;
      throw error;
    }
    return {
      port,
      accepted: () => accepted,
      close: async () => {
        await Promise.all([v4, v6].map(close));
      },
    };
  }
}

async function listen(server: Server, host: string, port: number): Promise<number> {
  server.listen({ host, port, ipv6Only: host === '::' });
  await once(server, 'listening');
  const address = server.address();
  return typeof address === 'object' && address !== null ? address.port : 0;
}
