import type { AddressInfo } from 'node:net';
import { AppError } from '../core/errors.ts';
import type { Http } from '../http/door.ts';

/** Throws UNAVAILABLE with what to do. */
export async function listen(http: Http, address: { host: string; port: number }): Promise<void> {
  try {
    await http.listen(address);
  } catch (cause) {
    throw new AppError('UNAVAILABLE', { message: explainListen(cause, address), cause });
  }
}

function explainListen(cause: unknown, { host, port }: { host: string; port: number }): string {
  const code = (cause as NodeJS.ErrnoException).code;
  if (code === 'EADDRINUSE') return `Port ${port} of ${host} is in use. Choose another with --port N, or stop what uses it.`;
  if (code === 'EACCES') return `This user may not listen on port ${port}. Choose one above 1023 with --port N.`;
  const why = cause instanceof Error ? cause.message : String(cause);
  return `The server cannot listen on ${host}, port ${port}: ${why}. Choose another address with --host and --port.`;
}

/** An address that works in a browser on this machine. */
export function addressOf(http: Http, host: string): string {
  const { port } = http.server.address() as AddressInfo;
  const shown = host === '0.0.0.0' || host === '::' ? 'localhost' : host.includes(':') ? `[${host}]` : host;
  return `http://${shown}:${port}`;
}
