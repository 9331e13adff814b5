import type { Socket } from 'node:net';
import { lookUp } from '../core/dictionary.ts';
import type { ProxyAddress } from '../core/ingest/proxy-pools.ts';
import type { IpAddress } from '../core/ip-address.ts';
import type { Candidate } from './dial.ts';
import { EgressFault } from './fault.ts';

export type { ProxyAddress };

const KINDS: Readonly<Record<string, { kind: ProxyAddress['kind']; port: number }>> = {
  'http:': { kind: 'http', port: 80 },
  'socks5:': { kind: 'socks5', port: 1080 },
};

/** SOCKS5 has one byte for the length of each credential (RFC 1929). The same limit applies to HTTP. */
const MAX_CREDENTIAL_BYTES = 255;

/** Accepts `http://user:password@host:3128` and `socks5://host:1080`, with nothing after the port. */
export function parseProxy(text: string): ProxyAddress | null {
  const url = URL.parse(text);
  const known = url === null ? undefined : lookUp(KINDS, url.protocol);
  if (url === null || known === undefined || url.hostname === '') return null;
  if (!['', '/'].includes(url.pathname) || url.search !== '' || url.hash !== '') return null;
  const port = url.port === '' ? known.port : Number(url.port);
  const username = decode(url.username);
  const password = decode(url.password);
  if (port === 0 || username === undefined || password === undefined) return null;
  if (username === null && password !== null) return null;
  return { kind: known.kind, host: url.hostname.replace(/^\[(.*)\]$/, '$1'), port, username, password };
}

/** Returns null for an absent credential, and undefined for one that is not valid. */
function decode(part: string): string | null | undefined {
  if (part === '') return null;
  try {
    const text = decodeURIComponent(part);
    return Buffer.byteLength(text) <= MAX_CREDENTIAL_BYTES ? text : undefined;
  } catch {
    return undefined;
  }
}

export type TunnelParams = {
  readonly socket: Socket;
  readonly proxy: ProxyAddress;
  readonly to: Candidate;
  readonly port: number;
  readonly signal: AbortSignal;
};

/** Asks the proxy for a tunnel to a checked address. The proxy never gets a host name, which it could resolve differently. */
export async function openTunnel(params: TunnelParams): Promise<void> {
  try {
    await (params.proxy.kind === 'http' ? openHttpTunnel(params) : openSocksTunnel(params));
  } catch (error) {
    params.socket.destroy();
    throw error;
  }
}

const MAX_HEAD_BYTES = 8_192;
const HEAD_END = '\r\n\r\n';
const STATUS_LINE = /^HTTP\/1\.[01] (\d{3})(?: |\r\n)/;

/** HTTP CONNECT (RFC 9110, 9.3.6). */
async function openHttpTunnel(params: TunnelParams): Promise<void> {
  const { socket, signal } = params;
  const send = connectRequest(params);
  const status = statusOf(await askProxy({ socket, signal, send, lengthOf: headLength, limit: MAX_HEAD_BYTES }));
  if (status === '200') return;
  if (status === undefined) throw proxyFault('the proxy does not speak HTTP');
  if (status === '407') throw proxyFault('the proxy requires valid credentials');
  throw new TunnelRefused(status);
}

/** The status of a proxy that works, but could not reach the target. */
const UNREACHABLE: ReadonlySet<string> = new Set(['502', '503', '504']);
/** The status of a proxy that opens no tunnels, or none to this port. */
const NO_TUNNELS: ReadonlySet<string> = new Set(['400', '403', '405', '501']);

/** An HTTP proxy that works does not open this tunnel. */
export class TunnelRefused extends EgressFault {
  readonly isForAllTargets: boolean;

  constructor(status: string) {
    super('PROXY', `the proxy refused the tunnel with status ${status}`, { blamesTarget: UNREACHABLE.has(status) });
    this.isForAllTargets = NO_TUNNELS.has(status);
  }
}

/** The headers that log in to an HTTP proxy. */
export function authorizationOf({ username, password }: ProxyAddress): Readonly<Record<string, string>> {
  if (username === null) return {};
  return { 'proxy-authorization': `Basic ${Buffer.from(`${username}:${password ?? ''}`).toString('base64')}` };
}

function connectRequest({ proxy, to, port }: TunnelParams): Buffer {
  const authority = to.address.version === 6 ? `[${to.text}]:${port}` : `${to.text}:${port}`;
  const lines = [`CONNECT ${authority} HTTP/1.1`, `Host: ${authority}`];
  for (const [name, value] of Object.entries(authorizationOf(proxy))) lines.push(`${name}: ${value}`);
  return Buffer.from(lines.join('\r\n') + HEAD_END, 'latin1');
}

/** A refusal may have a body; nothing may follow an accepted tunnel. */
function headLength(bytes: Buffer): number | null {
  const end = bytes.indexOf(HEAD_END);
  if (end === -1) return null;
  return statusOf(bytes) === '200' ? end + HEAD_END.length : bytes.length;
}

function statusOf(head: Buffer): string | undefined {
  return STATUS_LINE.exec(head.toString('latin1'))?.[1];
}

const VERSION = 5;
const AUTH_VERSION = 1;
const NO_AUTH = 0;
const PASSWORD = 2;
const CONNECT = 1;
const ADDRESS_TYPE = { 4: 1, 6: 4 } as const;
const ADDRESS_BYTES = { 4: 4, 6: 16 } as const;
/** Version, reply code, reserved byte and address type, then the address, then two bytes for the port. */
const REPLY_FRAME = 6;
const MAX_REPLY_BYTES = REPLY_FRAME + 256;

/** By reply code (RFC 1928). */
const REPLIES: readonly string[] = [
  'succeeded',
  'the proxy failed',
  'the proxy does not allow this connection',
  'the network is unreachable',
  'the host is unreachable',
  'the connection was refused',
  'the time to live expired',
  'the proxy does not know the command',
  'the proxy does not know the address type',
];

/** The replies of a proxy that works, but could not reach the target. */
const OF_TARGET: ReadonlySet<number> = new Set([2, 3, 4, 5, 6]);

/** SOCKS5 (RFC 1928, RFC 1929). */
async function openSocksTunnel({ socket, signal, proxy, to, port }: TunnelParams): Promise<void> {
  await logIn({ socket, signal, proxy });
  const send = Buffer.concat([
    Buffer.from([VERSION, CONNECT, 0, ADDRESS_TYPE[to.address.version]]),
    bytesOf(to.address),
    Buffer.from([port >> 8, port & 0xff]),
  ]);
  const reply = await askProxy({ socket, signal, send, lengthOf: replyLength, limit: MAX_REPLY_BYTES });
  if (reply[0] !== VERSION) throw proxyFault('the proxy does not speak SOCKS5');
  const code = reply[1] ?? 1;
  if (code === 0) return;
  throw new EgressFault('PROXY', REPLIES[code] ?? `the proxy replied with the code ${code}`, { blamesTarget: OF_TARGET.has(code) });
}

async function logIn({ socket, signal, proxy }: Pick<TunnelParams, 'socket' | 'signal' | 'proxy'>): Promise<void> {
  const ask = (send: Buffer): Promise<Buffer> =>
    askProxy({ socket, signal, send, lengthOf: (bytes) => (bytes.length < 2 ? null : 2), limit: 2 });
  const methods = proxy.username === null ? [NO_AUTH] : [NO_AUTH, PASSWORD];
  const [version, method] = await ask(Buffer.from([VERSION, methods.length, ...methods]));
  if (version !== VERSION) throw proxyFault('the proxy does not speak SOCKS5');
  if (method === NO_AUTH) return;
  if (method !== PASSWORD || proxy.username === null) throw proxyFault('the proxy requires another way to log in');
  const username = Buffer.from(proxy.username);
  const password = Buffer.from(proxy.password ?? '');
  const lengths = [Buffer.from([AUTH_VERSION, username.length]), Buffer.from([password.length])] as const;
  const [, status] = await ask(Buffer.concat([lengths[0], username, lengths[1], password]));
  if (status !== 0) throw proxyFault('the proxy refused the credentials');
}

/** After a refusal the reply may end anywhere, so the first two bytes are enough. */
function replyLength(bytes: Buffer): number | null {
  const [, reply, , type, nameLength] = bytes;
  if (reply !== undefined && reply !== 0) return bytes.length;
  if (type === ADDRESS_TYPE[4]) return REPLY_FRAME + ADDRESS_BYTES[4];
  if (type === ADDRESS_TYPE[6]) return REPLY_FRAME + ADDRESS_BYTES[6];
  return nameLength === undefined ? null : REPLY_FRAME + 1 + nameLength;
}

function bytesOf(address: IpAddress): Buffer {
  const length = ADDRESS_BYTES[address.version];
  return Buffer.from(address.value.toString(16).padStart(length * 2, '0'), 'hex');
}

type Question = {
  readonly socket: Socket;
  readonly signal: AbortSignal;
  readonly send: Buffer;
  /** The length of the message that starts with these bytes, or null when more bytes are needed to tell. */
  readonly lengthOf: (bytes: Buffer) => number | null;
  readonly limit: number;
};

/**
 * Sends a request to a proxy and returns its reply. Neither protocol lets a proxy send anything unasked, so bytes after the reply
 * are refused: they could be mistaken for a response of the target.
 */
async function askProxy(question: Question): Promise<Buffer> {
  const { socket, signal, limit } = question;
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
  let bytes = Buffer.alloc(0);
  const onReadable = () => {
    for (let piece = socket.read() as Buffer | null; piece !== null; piece = socket.read() as Buffer | null) {
      bytes = Buffer.concat([bytes, piece]);
      if (bytes.length > limit) break;
    }
    const length = question.lengthOf(bytes);
    if (length === bytes.length) resolve(bytes);
    else if (length !== null && length < bytes.length) reject(proxyFault('the proxy sent bytes after its reply'));
    else if (bytes.length > limit) reject(proxyFault(`the reply of the proxy is longer than ${limit} bytes`));
  };
  const onClose = () => reject(proxyFault('the proxy closed the connection'));
  const onAbort = () => reject(signal.reason);
  socket.on('readable', onReadable).once('close', onClose).once('end', onClose);
  signal.addEventListener('abort', onAbort, { once: true });
  if (signal.aborted) onAbort();
  else socket.write(question.send);
  try {
    return await promise;
  } finally {
    socket.off('readable', onReadable).off('close', onClose).off('end', onClose);
    signal.removeEventListener('abort', onAbort);
  }
}

const proxyFault = (message: string): EgressFault => new EgressFault('PROXY', message);
