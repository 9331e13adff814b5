import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';

/**
 * How the receiver responds to a delivery. The mode is the first segment of the path, so that one receiver serves all modes.
 *
 * - `ok` returns 200; `slow` returns 200 after `ms`, by default 3 000
 * - `timeout` never responds; with `times`, only the first `times` attempts of a message get no response
 * - `5xx` returns 500; `5xx-then-ok` returns 200 after `times` attempts, by default one
 * - `gone` returns 410, `redirect` 302 to `/ok`, `retry-after` 503 with `Retry-After: s` (by default 1), then 200
 */
export type ReceiverMode =
  | 'ok'
  | 'timeout'
  | `timeout?times=${number}`
  | '5xx'
  | '5xx-then-ok'
  | `5xx-then-ok?times=${number}`
  | 'slow'
  | `slow?ms=${number}`
  | 'gone'
  | 'redirect'
  | 'retry-after'
  | `retry-after?s=${number}`;

export type Received = {
  readonly at: Date;
  readonly path: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: string;
  readonly messageId: string | null;
  /** Whether the signature is valid; null if the receiver does not verify signatures. */
  readonly verified: boolean | null;
};

export type ReceiverOptions = {
  host?: string;
  port?: number;
  verify?(message: Pick<Received, 'headers' | 'body'>): boolean;
};

export type Receiver = {
  /** `label` separates the deliveries of one job or test from others in the same mode. */
  url(mode: ReceiverMode, label?: string): string;
  received(): readonly Received[];
  /** Resolves when the received messages satisfy the condition. */
  until(isEnough: (received: readonly Received[]) => boolean): Promise<void>;
  close(): Promise<void>;
};

const MAX_BODY_BYTES = 1_048_576;
const SLOW_MS = 3_000;

export async function openReceiver(options: ReceiverOptions = {}): Promise<Receiver> {
  const messages = new ReceivedMessages(options);
  const server = createServer((request, response) => void messages.serve(request, response));
  const { host = '127.0.0.1', port = 0 } = options;
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen({ host, port }, resolve));
  const { port: bound } = server.address() as AddressInfo;
  const origin = `http://${host.includes(':') ? `[${host}]` : host}:${bound}`;
  return {
    url: (mode, label) => urlOf({ origin, mode, label }),
    received: () => messages.received,
    until: (isEnough) => messages.until(isEnough),
    close: () =>
      new Promise((resolve) => {
        messages.close();
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function urlOf({ origin, mode, label }: { origin: string; mode: ReceiverMode; label?: string }): string {
  const [name, query] = mode.split('?');
  const path = label === undefined ? name : `${name}/${encodeURIComponent(label)}`;
  return `${origin}/${path}${query === undefined ? '' : `?${query}`}`;
}

class ReceivedMessages {
  readonly received: Received[] = [];
  readonly #verify: ReceiverOptions['verify'];
  readonly #waiters = new Set<() => void>();
  readonly #attempts = new Map<string, number>();
  readonly #closing = new AbortController();

  constructor({ verify }: ReceiverOptions) {
    this.#verify = verify;
  }

  async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    response.on('error', () => {});
    const body = await readBody(request).catch(() => null);
    if (body === null) return void response.destroy();
    if (isVerification(request)) return void response.writeHead(200).end();
    const message = this.#note(request, body);
    await this.#answer(message, response);
  }

  until(isEnough: (received: readonly Received[]) => boolean): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const look = () => {
      if (!isEnough(this.received)) return;
      this.#waiters.delete(look);
      resolve();
    };
    this.#waiters.add(look);
    look();
    return promise;
  }

  close(): void {
    this.#closing.abort();
  }

  #note({ headers, url = '/' }: IncomingMessage, body: string): Received {
    const id = headers['webhook-id'];
    const message: Received = {
      at: new Date(),
      path: url,
      headers,
      body,
      messageId: typeof id === 'string' ? id : null,
      verified: this.#verify?.({ headers, body }) ?? null,
    };
    this.received.push(message);
    for (const look of [...this.#waiters]) look();
    return message;
  }

  async #answer(message: Received, response: ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(message.path, 'http://receiver');
    const number = (name: string, otherwise: number) => Number(searchParams.get(name) ?? otherwise);
    const attempt = this.#attemptOf(message);
    const answer = (status: number, headers: Record<string, string> = {}) => response.writeHead(status, headers).end();
    switch (pathname.split('/')[1]) {
      case 'ok':
        return void answer(200);
      case 'slow':
        await delay(number('ms', SLOW_MS), undefined, { signal: this.#closing.signal }).catch(() => {});
        return void answer(200);
      case 'timeout': // No response until the sender gives up or the receiver closes.
        return void (attempt > number('times', Number.POSITIVE_INFINITY) && answer(200));
      case '5xx':
        return void answer(500);
      case '5xx-then-ok':
        return void answer(attempt > number('times', 1) ? 200 : 500);
      case 'gone':
        return void answer(410);
      case 'redirect':
        return void answer(302, { location: '/ok' });
      case 'retry-after':
        return void (attempt > 1 ? answer(200) : answer(503, { 'retry-after': String(number('s', 1)) }));
      default:
        return void answer(404);
    }
  }

  /** Counts the attempts of a message, or of a path if messages have no id. */
  #attemptOf({ messageId, path }: Received): number {
    const key = `${path} ${messageId}`;
    const attempt = (this.#attempts.get(key) ?? 0) + 1;
    this.#attempts.set(key, attempt);
    return attempt;
  }
}

/** The server sends a test message before its first event. All modes accept it, and it does not count as received. */
const isVerification = ({ headers }: IncomingMessage): boolean => String(headers['webhook-id']).endsWith('_test');

async function readBody(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > MAX_BODY_BYTES) throw new Error('the body is too large');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}
