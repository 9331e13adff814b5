import { createServer } from 'node:net';
import { type Home, readIfPresent } from './home.ts';

/**
 * The port of the last start when it is still free, so that programs which hold the old address find a restarted server
 * again; otherwise one that the system hands out.
 */
export async function choosePort(home: Home, attempt: number): Promise<number> {
  const last = Number((await readIfPresent(home.portFile)) ?? Number.NaN);
  if (attempt === 0 && Number.isInteger(last) && last > 0 && (await probePort(last)) !== null) return last;
  const port = await probePort(0);
  if (port === null) throw new Error('the system has no free port on 127.0.0.1');
  return port;
}

function probePort(port: number): Promise<number | null> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(null));
    server.listen({ port, host: '127.0.0.1', exclusive: true }, () => {
      const address = server.address();
      server.close(() => resolve(typeof address === 'object' && address !== null ? address.port : null));
    });
  });
}
