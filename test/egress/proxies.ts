import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';

/** What a proxy was asked for, as it was written. */
type Asked = { readonly host: string; readonly port: number; readonly credentials: string | null };
export type TestProxy = { readonly port: number; asked(): readonly Asked[]; close(): Promise<void> };
export type ProxyScript = {
  /** `user:password` */
  readonly credentials?: string;
  /** Instead of opening a tunnel: these bytes, as the answer to the request. */
  readonly answer?: Buffer;
  /** Nothing is ever said to who asks for this address. */
  readonly silentFor?: string;
};

type Ask = (asked: Asked) => Promise<Socket | null>;

export function openHttpProxy(script: ProxyScript = {}): Promise<TestProxy> {
  return serve(async (client, ask) => {
    const head = (await readUntil(client, (bytes) => bytes.includes('\r\n\r\n'))).toString('latin1');
    const [, host, port] = /^CONNECT (\S+):(\d+) HTTP\/1\.1\r\n/.exec(head) ?? [];
    const basic = /^proxy-authorization: Basic (\S+)\r$/im.exec(head)?.[1];
    const credentials = basic === undefined ? null : Buffer.from(basic, 'base64').toString();
    const target = await ask({ host: host ?? '', port: Number(port), credentials });
    if (script.credentials !== undefined && credentials !== script.credentials) {
      client.end('HTTP/1.1 407 Proxy Authentication Required\r\n\r\n');
      return null;
    }
    client.write(script.answer ?? 'HTTP/1.1 200 Connection established\r\nvia: test\r\n\r\n');
    return target;
  }, script);
}

export function openSocksProxy(script: ProxyScript = {}): Promise<TestProxy> {
  return serve(async (client, ask) => {
    const greeting = await readUntil(client, (bytes) => bytes.length >= 2 && bytes.length >= 2 + bytes[1]!);
    const wanted = script.credentials === undefined ? 0 : 2;
    const isOffered = greeting.subarray(2).includes(wanted);
    client.write(Buffer.from([5, isOffered ? wanted : 0xff]));
    if (!isOffered) return null;
    const credentials = wanted === 2 ? await logIn(client, script.credentials!) : null;
    const request = await readUntil(client, (bytes) => bytes.length >= (bytes[3] === 4 ? 22 : 10));
    const target = await ask({ ...readTarget(request), credentials });
    client.write(script.answer ?? Buffer.from([5, 0, 0, 1, 0, 0, 0, 0, 0, 0]));
    return target;
  }, script);
}

async function logIn(client: Socket, expected: string): Promise<string> {
  const message = await readUntil(client, (b) => b.length >= 3 && b.length >= 3 + b[1]! + (b[2 + b[1]!] ?? 255));
  const nameEnd = 2 + message[1]!;
  const credentials = `${message.toString('utf8', 2, nameEnd)}:${message.toString('utf8', nameEnd + 1)}`;
  client.write(Buffer.from([1, credentials === expected ? 0 : 1]));
  return credentials;
}

function readTarget(request: Buffer): { host: string; port: number } {
  const type = request[3];
  if (type === 3) return { host: request.toString('latin1', 5, 5 + request[4]!), port: 0 };
  const end = type === 4 ? 20 : 8;
  const host =
    type === 4
      ? Array.from({ length: 8 }, (_, n) => request.readUInt16BE(4 + n * 2).toString(16)).join(':')
      : request.subarray(4, end).join('.');
  return { host, port: request.readUInt16BE(end) };
}

type Dialogue = (client: Socket, ask: Ask) => Promise<Socket | null>;

async function serve(dialogue: Dialogue, script: ProxyScript): Promise<TestProxy> {
  const asked: Asked[] = [];
  const sockets = new Set<Socket>();
  const keep = (socket: Socket) => {
    sockets.add(socket.on('error', () => undefined));
    return socket;
  };
  const ask: Ask = async (request) => {
    asked.push(request);
    if (request.host === script.silentFor) await new Promise(() => undefined);
    if (script.answer !== undefined) return null;
    const host = request.host.replace(/^\[(.*)\]$/, '$1');
    return keep(connect({ host, port: request.port }));
  };
  const server: Server = createServer((client) => {
    dialogue(keep(client), ask).then(
      (target) => {
        if (target !== null) client.pipe(target).pipe(client);
      },
      () => client.destroy(),
    );
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  return {
    port: typeof address === 'object' && address !== null ? address.port : 0,
    asked: () => asked,
    close: async () => {
      server.close();
      for (const socket of sockets) socket.destroy();
      if (server.listening) await once(server, 'close');
    },
  };
}

async function readUntil(socket: Socket, isWhole: (bytes: Buffer) => boolean): Promise<Buffer> {
  let bytes = Buffer.alloc(0);
  while (!isWhole(bytes)) {
    const piece = socket.read() as Buffer | null;
    if (piece !== null) bytes = Buffer.concat([bytes, piece]);
    else if (socket.readableEnded || socket.destroyed) throw new Error('the client went away');
    else await Promise.race([once(socket, 'readable'), once(socket, 'close')]);
  }
  return bytes;
}
