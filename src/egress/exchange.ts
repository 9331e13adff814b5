import type { Socket } from 'node:net';
import { Client, type Dispatcher } from 'undici';
import type { TargetUrl } from '../core/target-url.ts';
import type { Deadline } from './deadline.ts';
import type { Candidate } from './dial.ts';
import { EgressFault, exchangeFault } from './fault.ts';
import { expectBody } from './read-space.ts';
import { ReplyBody } from './reply-body.ts';

export type HopRequest = {
  readonly method: 'GET' | 'HEAD' | 'POST';
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array | null;
};

export type Reply = {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Pick<ReplyBody, 'read' | 'stream'>;
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
  readonly deadline: Deadline;
  /** Takes the connection when its exchange is over. Null: the server is asked to close it, and it is never used again. */
  readonly keep: ((line: Line) => void) | null;
};

/** Sends one request. The deadline limits the time, so undici's own timers are off. */
export async function exchange(params: ExchangeParams): Promise<Reply> {
  const { target, line, request, deadline, keep } = params;
  const path = target.url.pathname + target.url.search;
  const { method, body } = request;
  const isToProxy = line.proxyHeaders !== null;
  const headers = isToProxy ? { ...request.headers, ...line.proxyHeaders } : request.headers;
  const whole = isToProxy ? target.url.origin + path : path;
  const handler = new ReplyHandler(params);
  try {
    deadline.throwIfOver();
    line.client.dispatch({ path: whole, method, body, headers, reset: keep === null }, handler);
    return await handler.reply;
  } catch (error) {
    handler.close();
    deadline.throwIfOver();
    throw exchangeFault(error);
  }
}

/** Turns what undici reports about one request into a reply. The end of the deadline closes the connection, which fails the request. */
class ReplyHandler implements Dispatcher.DispatchHandler {
  readonly #line: Line;
  readonly #keep: ExchangeParams['keep'];
  readonly #bytesBefore: number;
  readonly #answered = Promise.withResolvers<Reply>();
  readonly #offDeadline: () => void;
  #body: ReplyBody | null = null;
  #headers: Reply['headers'] = {};

  constructor({ line, keep, deadline }: ExchangeParams) {
    this.#line = line;
    this.#keep = keep;
    this.#bytesBefore = line.socket.bytesRead;
    this.#offDeadline = deadline.onOver(() => closeLine(line));
  }

  get reply(): Promise<Reply> {
    return this.#answered.promise;
  }

  /** undici takes a handler without this method for one of an older kind. */
  onRequestStart(): void {}

  onResponseStart(controller: Dispatcher.DispatchController, status: number, headers: Record<string, string | string[] | undefined>): void {
    if (status < 200) return;
    this.#headers = flatten(headers);
    if (this.#keep !== null) {
      const { socket } = this.#line;
      expectBody(socket, bodyBytes(status, this.#headers) - (socket.bytesRead - this.#bytesBefore));
    }
    this.#body = new ReplyBody(controller);
    this.#answered.resolve({ status, headers: this.#headers, body: this.#body, close: () => this.close() });
  }

  onResponseData(_: Dispatcher.DispatchController, piece: Buffer): void {
    this.#body?.push(piece);
  }

  onResponseEnd(): void {
    this.#body?.end();
  }

  onResponseError(_: Dispatcher.DispatchController, error: Error): void {
    if (this.#body === null) this.#answered.reject(error);
    else this.#body.fail(error);
  }

  close(): void {
    this.#offDeadline();
    if (this.#keep !== null && this.#body?.isRead === true && isReusable(this.#headers)) this.#keep(this.#line);
    else closeLine(this.#line);
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
