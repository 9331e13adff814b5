import type { Socket } from 'node:net';
import type { Readable } from 'node:stream';
import { Client } from 'undici';
import type { TargetUrl } from '../core/target-url.ts';
import { EgressFault, exchangeFault } from './fault.ts';

export type HopRequest = {
  readonly method: 'GET' | 'HEAD' | 'POST';
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array | null;
};

export type Reply = {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Readable;
  /** Closes the connection, which is never reused. */
  close(): void;
};

const MAX_HEADER_BYTES = 16_384;

/** Sends one request on a new connection. The signal limits the time, so undici's own timers are off. */
export async function exchange(params: { target: TargetUrl; socket: Socket; request: HopRequest; signal: AbortSignal }): Promise<Reply> {
  const { target, socket, request, signal } = params;
  const client = clientOn(socket, target.url.origin);
  const close = () => {
    client.destroy().catch(() => undefined);
    socket.destroy();
  };
  try {
    const path = target.url.pathname + target.url.search;
    const { statusCode, headers, body } = await client.request({ path, ...request, signal, reset: true });
    // Until a reader attaches, the errors of the body have no other listener.
    body.on('error', () => undefined);
    return { status: statusCode, headers: flatten(headers), body, close };
  } catch (error) {
    close();
    signal.throwIfAborted();
    throw exchangeFault(error);
  }
}

/** A client that uses the given socket and cannot open connections. */
function clientOn(socket: Socket, origin: string): Client {
  let isHandedOver = false;
  return new Client(origin, {
    connect: (_, callback) => {
      if (isHandedOver) return callback(new EgressFault('RESET', 'the connection was closed'), null);
      isHandedOver = true;
      // undici stalls when its connection is ready before this function returns.
      queueMicrotask(() => callback(null, socket));
    },
    allowH2: false,
    pipelining: 1,
    maxHeaderSize: MAX_HEADER_BYTES,
    headersTimeout: 0,
    bodyTimeout: 0,
    keepAliveTimeout: 1,
  });
}

function flatten(headers: Readonly<Record<string, string | string[] | undefined>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, Array.isArray(value) ? value.join(', ') : value]],
    ),
  );
}
