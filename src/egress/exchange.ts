import type { Socket } from 'node:net';
import type { Readable } from 'node:stream';
import { Client } from 'undici';
import type { TargetUrl } from '../core/target-url.ts';
import type { Candidate } from './dial.ts';
import { EgressFault, exchangeFault } from './fault.ts';
import { expectBody } from './read-space.ts';

export type HopRequest = {
  readonly method: 'GET' | 'HEAD' | 'POST';
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array | null;
};

export type Reply = {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Readable;
  /** Ends the exchange. Keeps the connection for another request if that was asked for and the whole body was read; else closes it. */
  close(): void;
};

/** A connection to a checked address, with the HTTP client on it. */
export type Line = {
  readonly client: Client;
  readonly socket: Socket;
  readonly candidate: Candidate;
  readonly openedMs: number;
  /** The requests name the whole URL, because a proxy reads them. */
  readonly proxyHeaders: Readonly<Record<string, string>> | null;
};

const MAX_HEADER_BYTES = 16_384;
/** Servers often close idle connections after five seconds. */
const IDLE_MS = 4_000;

type LineParams = Pick<Line, 'socket' | 'candidate' | 'proxyHeaders'> & { readonly origin: string };

/** The client uses the given socket and cannot open connections. */
export function openLine({ socket, candidate, proxyHeaders, origin }: LineParams): Line {
  let isHandedOver = false;
  const client = new Client(origin, {
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
    keepAliveTimeout: IDLE_MS,
    keepAliveMaxTimeout: IDLE_MS,
  });
  return { client, socket, candidate, proxyHeaders, openedMs: performance.now() };
}

export function closeLine({ client, socket }: Line): void {
  client.destroy().catch(() => undefined);
  socket.destroy();
}

type ExchangeParams = {
  readonly target: TargetUrl;
  readonly line: Line;
  readonly request: HopRequest;
  readonly signal: AbortSignal;
  /** Takes the connection when its exchange is over. Null: the server is asked to close it, and it is never used again. */
  readonly keep: ((line: Line) => void) | null;
};

/** Sends one request. The signal limits the time, so undici's own timers are off. */
export async function exchange({ target, line, request, signal, keep }: ExchangeParams): Promise<Reply> {
  const path = target.url.pathname + target.url.search;
  const { method, body } = request;
  const isToProxy = line.proxyHeaders !== null;
  const headers = isToProxy ? { ...request.headers, ...line.proxyHeaders } : request.headers;
  const whole = isToProxy ? target.url.origin + path : path;
  const bytesBefore = line.socket.bytesRead;
  try {
    const answer = await line.client.request({ path: whole, method, body, headers, signal, reset: keep === null });
    // Until a reader attaches, the errors of the body have no other listener.
    answer.body.on('error', () => undefined);
    const received = flatten(answer.headers);
    if (keep !== null) expectBody(line.socket, bodyBytes(answer.statusCode, received) - (line.socket.bytesRead - bytesBefore));
    const close = () => {
      if (keep !== null && answer.body.readableEnded && isReusable(received)) keep(line);
      else closeLine(line);
    };
    return { status: answer.statusCode, headers: received, body: answer.body, close };
  } catch (error) {
    closeLine(line);
    signal.throwIfAborted();
    throw exchangeFault(error);
  }
}

/** The length of a body that is read to its end as a rule. Chunks have framing between them, which is not part of the body. */
const bodyBytes = (status: number, headers: Readonly<Record<string, string>>): number =>
  status === 200 || status === 206 ? Number(headers['content-length'] ?? 0) : 0;

const isReusable = (headers: Readonly<Record<string, string>>): boolean => !/\bclose\b/i.test(headers.connection ?? '');

function flatten(headers: Readonly<Record<string, string | string[] | undefined>>): Readonly<Record<string, string>> {
  const isFlat = Object.values(headers).every((value) => typeof value === 'string');
  if (isFlat) return headers as Readonly<Record<string, string>>;
  return Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, Array.isArray(value) ? value.join(', ') : value]],
    ),
  );
}
