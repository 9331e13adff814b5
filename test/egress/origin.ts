import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import { createServer as createTlsServer, type TlsOptions } from 'node:tls';

export type Seen = { readonly method: string; readonly path: string; readonly headers: string; readonly body: string };
/** Says what to send, byte for byte, or takes the socket over and returns null. */
export type Script = (seen: Seen, socket: Socket) => string | Buffer | null;
export type Origin = {
  readonly port: number;
  readonly host: string;
  /** Connections that were accepted. */
  accepted(): number;
  seen(): readonly Seen[];
  /** How many bytes have arrived, whether they are a request or not. */
  bytes(): number;
  /** When the next connection that ends has ended. */
  nextClose(): Promise<void>;
  close(): Promise<void>;
};

/** A server that can misbehave: it writes raw bytes. */
export async function openOrigin(script: Script, options: { host?: string; tls?: TlsOptions } = {}): Promise<Origin> {
  const host = options.host ?? '127.0.0.1';
  const seen: Seen[] = [];
  let received = 0;
  const sockets = new Set<Socket>();
  const serve = (socket: Socket) => {
    let bytes = '';
    socket
      .on('error', () => undefined)
      .on('data', (piece: Buffer) => {
        received += piece.length;
        bytes += piece.toString('latin1');
        const request = readRequest(bytes);
        if (request === null) return;
        bytes = '';
        seen.push(request);
        const answer = script(request, socket);
        if (answer !== null) socket.write(answer);
      });
  };
  const server: Server = options.tls === undefined ? createServer(serve) : createTlsServer(options.tls, serve);
  let accepted = 0;
  let ended = Promise.withResolvers<void>();
  server.on('connection', (socket: Socket) => {
    accepted++;
    sockets.add(socket.on('error', () => undefined));
    socket.once('close', () => {
      ended.resolve();
      ended = Promise.withResolvers<void>();
    });
  });
  server.listen(0, host);
  await once(server, 'listening');
  const address = server.address();
  return {
    host,
    port: typeof address === 'object' && address !== null ? address.port : 0,
    accepted: () => accepted,
    seen: () => seen,
    bytes: () => received,
    nextClose: () => ended.promise,
    close: async () => {
      server.close();
      for (const socket of sockets) socket.destroy();
      if (server.listening) await once(server, 'close');
    },
  };
}

function readRequest(bytes: string): Seen | null {
  const end = bytes.indexOf('\r\n\r\n');
  if (end === -1) return null;
  const headers = bytes.slice(0, end + 2);
  const length = Number(/^content-length: (\d+)/im.exec(headers)?.[1] ?? 0);
  const body = bytes.slice(end + 4);
  if (body.length < length) return null;
  const [method = '', path = ''] = headers.split(' ');
  return { method, path, headers: headers.slice(headers.indexOf('\r\n') + 2), body };
}

export function answerWith(status: number, headers: Readonly<Record<string, string>> = {}, body = ''): string {
  const all = { 'content-length': String(Buffer.byteLength(body)), ...headers };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  return `HTTP/1.1 ${status} Whatever\r\n${lines.join('')}\r\n${body}`;
}
